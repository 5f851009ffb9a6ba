//! The flow table's memory: a file that outlives the process, on a file system that does not outlive the boot.
//!
//! One page of header, then the slots. The file is sparse: it takes memory as slots are used. It is as it was left
//! only if everything that gives its contents their meaning is the same: layout, capacity and boot. Otherwise it is
//! begun anew.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::sys::statvfs::fstatvfs;
use vrouter_forward::Epoch;
use vrouter_forward::flow::{LAYOUT_VERSION, Slot};

use crate::{BootId, IoError};

const MAGIC: [u8; 8] = *b"vrflows\n";
const HEADER_BYTES: usize = 4096;
const MAX_CAPACITY: usize = 1 << 31;

/// The start of the file. All but the epoch is written once, before the file is first used.
#[repr(C)]
struct Header {
    identity: Identity,
    seed: u64,
    epoch: AtomicU32,
}

/// What must be the same for the slots to mean anything.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    magic: [u8; 8],
    layout_version: u32,
    slot_bytes: u32,
    capacity: u64,
    boot_id: [u8; 16],
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES && HEADER_BYTES.is_multiple_of(align_of::<Slot>()));

/// The mapped file. It stays mapped until the process ends, since workers hold on to its slots.
#[derive(Debug)]
pub struct FlowFile {
    header: &'static Header,
    slots: &'static [Slot],
    is_fresh: bool,
    /// Holds the lock that keeps a second router out.
    _lock: Flock<File>,
}

impl FlowFile {
    /// Opens and maps the file, or makes it, for so many flow directions. Beyond the file's own sake, its owner must be
    /// ourselves: who can write to it can make up connections.
    pub fn open(path: &Path, capacity: usize, boot_id: BootId) -> Result<Self, IoError> {
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(IoError::FlowCapacity(capacity));
        }
        let opening = Opening { path, capacity, boot_id };
        let lock = opening.lock(opening.open_file()?)?;
        opening.check_ownership(&lock)?;
        let is_fresh = !opening.is_as_it_was(&lock);
        if is_fresh {
            opening.begin_anew(&lock)?;
        }
        let (header, slots) = opening.map(&lock)?;
        Ok(Self { header, slots, is_fresh, _lock: lock })
    }

    /// The slots.
    pub fn slots(&self) -> &'static [Slot] {
        self.slots
    }

    /// The secret that flow keys are hashed with.
    pub fn seed(&self) -> u64 {
        self.header.seed
    }

    /// Whether it was begun anew, so that there is nothing to recover.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The last epoch that was drawn, by this process or one before it.
    pub fn last_epoch(&self) -> Epoch {
        Epoch(self.header.epoch.load(Ordering::Acquire))
    }

    /// The next epoch, larger than any before, also over restarts.
    pub fn next_epoch(&self) -> Epoch {
        Epoch(self.header.epoch.fetch_add(1, Ordering::AcqRel) + 1)
    }
}

/// What is being opened.
struct Opening<'a> {
    path: &'a Path,
    capacity: usize,
    boot_id: BootId,
}

impl Opening<'_> {
    fn failed<E: Into<io::Error>>(&self, step: &'static str) -> impl FnOnce(E) -> IoError {
        let path = self.path.to_owned();
        move |source| IoError::FlowFile { path, step, source: source.into() }
    }

    fn identity(&self) -> Identity {
        Identity {
            magic: MAGIC,
            layout_version: LAYOUT_VERSION,
            slot_bytes: size_of::<Slot>() as u32,
            capacity: self.capacity as u64,
            boot_id: self.boot_id.0,
        }
    }

    fn bytes(&self) -> usize {
        HEADER_BYTES + self.capacity * size_of::<Slot>()
    }

    fn open_file(&self) -> Result<File, IoError> {
        // A directory that anyone can write to, as /dev/shm is, may hold a link that was put there for us.
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(self.path)
            .map_err(self.failed("opening"))
    }

    fn lock(&self, file: File) -> Result<Flock<File>, IoError> {
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => IoError::FlowFileBusy(self.path.to_owned()),
            errno => self.failed("locking")(errno),
        })
    }

    fn check_ownership(&self, file: &File) -> Result<(), IoError> {
        let metadata = file.metadata().map_err(self.failed("looking at it"))?;
        let unsafe_because = |problem| Err(IoError::FlowFileUnsafe { path: self.path.to_owned(), problem });
        if !metadata.file_type().is_file() || metadata.file_type().is_fifo() {
            return unsafe_because("it is not a regular file");
        }
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return unsafe_because("it belongs to another user");
        }
        if metadata.mode() & 0o077 != 0 {
            return unsafe_because("others than its owner may use it");
        }
        Ok(())
    }

    /// Whether the file's contents are what a process like this one left in this boot.
    fn is_as_it_was(&self, file: &File) -> bool {
        let is_size_right = file.metadata().is_ok_and(|metadata| metadata.len() == self.bytes() as u64);
        is_size_right
            && map_header(file).is_ok_and(|header| {
                let identity = header.identity;
                identity == self.identity()
            })
    }

    /// Makes it a file of zeroes with a header.
    fn begin_anew(&self, file: &File) -> Result<(), IoError> {
        file.set_len(0).map_err(self.failed("emptying"))?;
        self.check_room(file)?;
        file.set_len(self.bytes() as u64).map_err(self.failed("growing"))?;
        let mut seed = [0; 8];
        getrandom(&mut seed).map_err(self.failed("drawing a seed"))?;
        let header = Header { identity: self.identity(), seed: u64::from_ne_bytes(seed), epoch: AtomicU32::new(0) };
        // SAFETY: the header is a plain struct without padding between its fields' bytes that are read back; the view
        // does not outlive it.
        let bytes = unsafe { slice::from_raw_parts((&raw const header).cast::<u8>(), size_of::<Header>()) };
        std::os::unix::fs::FileExt::write_all_at(file, bytes, 0).map_err(self.failed("writing its header"))
    }

    /// A sparse file on a file system without room would kill the process when it touches a slot. It is better not to
    /// begin.
    fn check_room(&self, file: &File) -> Result<(), IoError> {
        let stat = fstatvfs(file.as_fd()).map_err(self.failed("looking at its file system"))?;
        let free = stat.blocks_available() as u64 * stat.fragment_size() as u64;
        let needed = self.bytes() as u64;
        if free < needed {
            return Err(IoError::FlowFileRoom { path: self.path.to_owned(), needed, free });
        }
        Ok(())
    }

    fn map(&self, file: &File) -> Result<(&'static Header, &'static [Slot]), IoError> {
        let start = map_shared(file, self.bytes()).map_err(self.failed("mapping"))?;
        // SAFETY: the mapping is as long as the file, stays until the process ends, and begins with a header that was
        // written or compared before. Nobody else writes it: the lock and the file's mode keep others out.
        let header = unsafe { start.cast::<Header>().as_ref() };
        // SAFETY: behind the header's page are `capacity` slots, aligned, of atomics, for which any bytes are a value.
        let slots = unsafe { slice::from_raw_parts(start.byte_add(HEADER_BYTES).cast::<Slot>().as_ptr(), self.capacity) };
        Ok((header, slots))
    }
}
