//! How the kernel schedules a thread.
//! Source: <https://man7.org/linux/man-pages/man7/sched.7.html>

use std::io;

/// From now on, this thread does not take a processor from others when it has something to do: it waits for its turn
/// (`SCHED_BATCH`). Its share of the processors, and its nice value, stay what they are. A thread for which somebody has
/// chosen another policy keeps it.
pub fn give_way() -> io::Result<()> {
    // SAFETY: it takes no pointer; thread 0 is the one that calls.
    if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_OTHER {
        return Ok(());
    }
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one `sched_param`, which lives until it returns.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way() {
        // Field 41 of the thread's line in /proc.
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let after_name = stat.rsplit(')').next().unwrap();
            after_name.split_whitespace().nth(38).unwrap().parse()
        };
        let before = policy().unwrap();
        give_way().unwrap();
        let expected = if before == libc::SCHED_OTHER { libc::SCHED_BATCH } else { before };
        assert_eq!(policy(), Ok(expected));
    }
}
