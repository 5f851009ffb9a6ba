//! The flow table's memory: a file that outlives the process, on a file system that does not outlive the boot.
//!
//! One page of header, then the slots. It is as it was left only if everything that gives its contents their meaning
//! is the same: layout, capacity and boot. Otherwise it is begun anew.
//!
//! The file is sparse: it takes memory as its slots are first touched, page by page, and does not give it back. On
//! tmpfs even reading through a shared mapping takes it, so the header keeps how far slots were ever used, and a start
//! looks no further.
//!
//! That there is room for all of it is checked at the start only; nothing is set aside. Should others fill the file
//! system later on, the next page that is touched ends the process with SIGBUS.

use std::fmt;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::sys::statvfs::fstatvfs;
use vrouter_forward::Epoch;
use vrouter_forward::flow::{LAYOUT_VERSION, Slot};

use crate::{BootId, IoError};

const MAGIC: &[u8; 8] = b"vrflows\n";
const HEADER_BYTES: usize = 4096;
const MAX_CAPACITY: usize = 1 << 31;

/// The start of the file. All but the atomics is written once, before the file is first used.
#[repr(C)]
struct Header {
    identity: Identity,
    seed: [u8; 8],
    epoch: AtomicU32,
    high_water: AtomicU32,
}

/// What must be the same for the slots to mean anything: magic, layout version, slot size, capacity, boot.
type Identity = [u8; 40];

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES && HEADER_BYTES.is_multiple_of(align_of::<Slot>()));

/// The mapped file. It stays mapped until the process ends, since workers hold on to its slots.
pub struct FlowFile {
    header: &'static Header,
    slots: &'static [Slot],
    /// Holds the lock that keeps a second router out.
    _lock: Flock<File>,
}

impl FlowFile {
    /// Opens and maps the file, or makes it, for so many flow directions. Nobody else may be able
    /// to write to it, for who can, can make up connections.
    pub fn open(path: &Path, capacity: usize, boot_id: BootId) -> Result<Self, IoError> {
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(IoError::FlowCapacity(capacity));
        }
        let opening = Opening { path, capacity, boot_id };
        let lock = opening.lock(opening.open_file()?)?;
        opening.check_ownership(&lock)?;
        opening.check_room(&lock)?;
        if !opening.is_as_it_was(&lock) {
            opening.begin_anew(&lock)?;
        }
        let (header, slots) = opening.map(&lock)?;
        Ok(Self { header, slots, _lock: lock })
    }

    /// The slots.
    pub fn slots(&self) -> &'static [Slot] {
        self.slots
    }

    /// No slot at or above this one was ever used; the flow table raises it as it uses more of them.
    pub fn high_water(&self) -> &'static AtomicU32 {
        &self.header.high_water
    }

    /// The secret that flow keys are hashed with.
    pub fn seed(&self) -> u64 {
        u64::from_ne_bytes(self.header.seed)
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

impl fmt::Debug for FlowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowFile")
            .field("capacity", &self.slots.len())
            .field("high_water", &self.header.high_water)
            .finish()
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
        let mut identity = [0; _];
        let (magic, rest) = identity.split_at_mut(8);
        magic.copy_from_slice(MAGIC);
        let (version, rest) = rest.split_at_mut(4);
        version.copy_from_slice(&LAYOUT_VERSION.to_ne_bytes());
        let (slot_bytes, rest) = rest.split_at_mut(4);
        slot_bytes.copy_from_slice(&(size_of::<Slot>() as u32).to_ne_bytes());
        let (capacity, boot_id) = rest.split_at_mut(8);
        capacity.copy_from_slice(&(self.capacity as u64).to_ne_bytes());
        boot_id.copy_from_slice(&self.boot_id.0);
        identity
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
        if !metadata.is_file() {
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
        let mut identity: Identity = [0; _];
        file.metadata().is_ok_and(|metadata| metadata.len() == self.bytes() as u64)
            && file.read_exact_at(&mut identity, 0).is_ok()
            && identity == self.identity()
    }

    /// Makes it a file of zeroes, and of a header once everything else is in place.
    fn begin_anew(&self, file: &File) -> Result<(), IoError> {
        file.set_len(0).map_err(self.failed("emptying"))?;
        file.set_len(self.bytes() as u64).map_err(self.failed("growing"))?;
        let seed = random_seed().map_err(self.failed("drawing a seed"))?;
        let header = [&self.identity()[..], &seed].concat();
        file.write_all_at(&header, 0).map_err(self.failed("writing its header"))
    }

    /// With less room than it may grow to, it would end the process sooner or later. It is better not to begin. This
    /// sets nothing aside: whether the room is still there when it is needed, nobody can say.
    fn check_room(&self, file: &File) -> Result<(), IoError> {
        let stat = fstatvfs(file).map_err(self.failed("looking at its file system"))?;
        let free = stat.blocks_available() as u64 * stat.fragment_size() as u64;
        let held = file.metadata().map_err(self.failed("looking at it"))?.blocks() * 512;
        let needed = (self.bytes() as u64).saturating_sub(held);
        if free < needed {
            return Err(IoError::FlowFileRoom { path: self.path.to_owned(), needed, free });
        }
        Ok(())
    }

    fn map(&self, file: &File) -> Result<(&'static Header, &'static [Slot]), IoError> {
        let len = NonZeroUsize::new(self.bytes()).ok_or(IoError::FlowCapacity(self.capacity))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping where the kernel finds room for it touches no other memory.
        let start = unsafe { mmap(None, len, protection, MapFlags::MAP_SHARED, file, 0) }
            .map_err(self.failed("mapping"))?;
        // SAFETY: the mapping is as long as the file and stays until the process ends. It begins with a header, whose
        // plain fields nobody writes any more: the lock and the file's mode keep other processes out.
        let header = unsafe { start.cast::<Header>().as_ref() };
        // SAFETY: behind the header's page are `capacity` aligned slots of atomics, for which any bytes are a value.
        let slots = unsafe {
            slice::from_raw_parts(start.byte_add(HEADER_BYTES).cast::<Slot>().as_ptr(), self.capacity)
        };
        Ok((header, slots))
    }
}

fn random_seed() -> io::Result<[u8; 8]> {
    let mut seed = [0; 8];
    // SAFETY: the buffer has the length that is said. So few bytes are always given whole.
    let drawn = unsafe { libc::getrandom(seed.as_mut_ptr().cast(), seed.len(), 0) };
    if drawn == seed.len() as isize { Ok(seed) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: BootId = BootId([7; 16]);

    fn open(path: &Path, capacity: usize, boot_id: BootId) -> FlowFile {
        FlowFile::open(path, capacity, boot_id).unwrap()
    }

    #[test]
    fn a_file_is_found_again_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows");
        let first = open(&path, 1000, BOOT);
        assert_eq!(first.slots().len(), 1000);
        assert_eq!(first.high_water().swap(12, Ordering::Relaxed), 0);
        assert_eq!([first.next_epoch(), first.next_epoch()], [Epoch(1), Epoch(2)]);
        let seed = first.seed();
        drop(first);
        let again = open(&path, 1000, BOOT);
        assert_eq!((again.seed(), again.last_epoch(), again.next_epoch()), (seed, Epoch(2), Epoch(3)));
        assert_eq!(again.high_water().load(Ordering::Relaxed), 12);
    }

    #[test]
    fn another_boot_capacity_or_layout_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows");
        let first = open(&path, 1000, BOOT);
        first.high_water().store(12, Ordering::Relaxed);
        let mut seeds = vec![first.seed()];
        drop(first);
        for (capacity, boot_id) in [(1000, BootId([8; 16])), (2000, BootId([8; 16]))] {
            let file = open(&path, capacity, boot_id);
            assert_eq!((file.slots().len(), file.last_epoch()), (capacity, Epoch(0)));
            assert_eq!(file.high_water().load(Ordering::Relaxed), 0);
            seeds.push(file.seed());
        }
        // Magic, layout version, slot size.
        for offset in [0, 8, 12] {
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[byte[0] ^ 0x80], offset).unwrap();
            seeds.push(open(&path, 2000, BootId([8; 16])).seed());
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6, "each time a new seed");
    }

    #[test]
    fn a_torn_file_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows");
        let seed = open(&path, 1000, BOOT).seed();
        File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
        assert_ne!(open(&path, 1000, BOOT).seed(), seed);
    }

    #[test]
    fn slots_that_were_never_looked_at_take_no_memory() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("flows");
        let _file = open(&path, 10_000, BOOT);
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 <= HEADER_BYTES as u64);
    }

    #[test]
    fn two_processes_cannot_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows");
        let _first = open(&path, 10, BOOT);
        let error = FlowFile::open(&path, 10, BOOT).unwrap_err();
        assert!(matches!(error, IoError::FlowFileBusy(_)), "{error}");
    }

    #[test]
    fn what_others_could_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open_to_all = folder.path().join("open");
        drop(File::options().create_new(true).write(true).mode(0o666).open(&open_to_all).unwrap());
        std::fs::set_permissions(&open_to_all, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&open_to_all, &link).unwrap();
        for path in [&open_to_all, &link, &folder.path().to_owned(), &folder.path().join("no/such/folder")] {
            let error = FlowFile::open(path, 10, BOOT).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn a_capacity_that_cannot_be_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for capacity in [0, MAX_CAPACITY + 1] {
            let error = FlowFile::open(&folder.path().join("flows"), capacity, BOOT).unwrap_err();
            assert!(matches!(error, IoError::FlowCapacity(_)), "{error}");
        }
    }

    #[test]
    fn a_file_that_could_not_grow_is_refused() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let error = FlowFile::open(&folder.path().join("flows"), MAX_CAPACITY, BOOT).unwrap_err();
        assert!(matches!(error, IoError::FlowFileRoom { .. }), "{error}");
    }
}
