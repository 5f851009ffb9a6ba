//! Hints to bring memory near before it is needed. They change nothing but the time.

/// Asks for the cache line at the start of `target`, to read it soon.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(target: &T) {
    hint::read(std::ptr::from_ref(target).cast());
}

/// Asks for the cache line at the start of `target`, to write it soon: it is fetched exclusively, so that the write
/// does not have to ask the other cores again.
#[inline(always)]
pub fn prefetch_write<T: ?Sized>(target: &T) {
    hint::write(std::ptr::from_ref(target).cast());
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod hint {
    use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};

    #[inline(always)]
    pub(super) fn read(address: *const i8) {
        // SAFETY: a prefetch never faults and has no effect on the program's state, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }

    #[inline(always)]
    pub(super) fn write(address: *const i8) {
        // SAFETY: as for `read`; a CPU without PREFETCHW executes it as a no-op.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(address) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod hint {
    use std::arch::asm;

    #[inline(always)]
    pub(super) fn read(address: *const i8) {
        // SAFETY: PRFM never faults and changes neither registers, flags nor memory.
        unsafe {
            asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly))
        };
    }

    #[inline(always)]
    pub(super) fn write(address: *const i8) {
        // SAFETY: as for `read`.
        unsafe {
            asm!("prfm pstl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly))
        };
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod hint {
    pub(super) fn read(_: *const i8) {}

    pub(super) fn write(_: *const i8) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_nothing() {
        let value = [7_u64; 8];
        prefetch_read(&value);
        prefetch_write(&value);
        prefetch_read::<[u8]>(&[]);
        assert_eq!(value, [7; 8]);
    }
}
