//! The frames of a worker, which go round and are never given back.

use vrouter_forward::frame::{Frame, MAX_FRAME};

/// An empty frame of full size.
///
/// The last one put back is the first one taken: its buffer is still in the cache. New ones only come while more are
/// under way than ever before. Their buffers are two cache lines of headroom and a little more longer than sixteen
/// pages, so that those which the allocator puts side by side begin in different sets of the cache.
pub(crate) fn take(spare: &mut Vec<Frame>) -> Frame {
    spare.pop().unwrap_or_else(|| Frame::with_capacity(MAX_FRAME))
}

/// Puts frames back that have done their service. The first of a burst is taken first again.
pub(crate) fn put_back(spare: &mut Vec<Frame>, frames: &mut Vec<Frame>) {
    for mut frame in frames.drain(..).rev() {
        frame.reset();
        // What the router left without a buffer, or made in one of another size, is none of ours.
        if frame.capacity() >= MAX_FRAME {
            spare.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_round() {
        let mut spare = Vec::new();
        let mut burst: Vec<_> = (0..3).map(|_| take(&mut spare)).collect();
        burst.push(Frame::with_capacity(100));
        let first = burst[0].bytes().as_ptr();
        put_back(&mut spare, &mut burst);
        assert_eq!((burst.len(), spare.len()), (0, 3));
        assert_eq!(take(&mut spare).bytes().as_ptr(), first);
    }
}
