//! A control group for the program, where kernel and machine allow one: nothing leaves it, whatever it does to its session,
//! its parents or its environment, and the whole of it is killed at once (cgroups(7), `cgroup.kill` of Linux 5.14).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const NAME: &str = "gpuplan-";
/// A killed process is gone within milliseconds unless it waits for a broken disk.
const DIES_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Removed when the agent ends in an orderly way. The next agent kills one that was left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    path: PathBuf,
    /// Where the agent itself lives.
    home: PathBuf,
}

impl ControlGroup {
    /// The group of an agent, by the number of its process and its start, which no other has. `None` where there is no version
    /// 2, no right to make a group, or a kernel that is too old.
    pub fn make(pid: i32, start_ticks: u64, is_alive: impl Fn(i32, u64) -> bool) -> Option<Self> {
        let home =
            home(&fs::read_to_string("/proc/self/cgroup").ok()?, &fs::read_to_string("/proc/self/mountinfo").ok()?)?;
        sweep(&home, is_alive);
        let path = home.join(format!("{NAME}{pid}-{start_ticks}"));
        fs::create_dir(&path).ok()?;
        let group = Self { path, home };
        // To stay in the group would be to die with the program, so the way back is tried first.
        let is_usable = group.path.join("cgroup.kill").exists() && group.inside(|| ()).is_ok();
        if !is_usable {
            group.remove();
        }
        is_usable.then_some(group)
    }

    pub fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// What is started in `work` is born in the group: the agent goes in, starts it, and comes back. To move it afterwards would
    /// miss what it had started by then.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        enter(&self.path)?;
        let done = work();
        enter(&self.home)?;
        Ok(done)
    }

    /// Kills everything in it and waits until it is gone.
    pub fn end(&self) -> io::Result<()> {
        end(&self.path)
    }

    pub fn remove(&self) {
        remove(&self.path);
    }
}

/// Kills what an agent that is gone left in its group. A path that does not name such a group is none.
pub fn end_left_behind(path: &str) -> io::Result<()> {
    let path = Path::new(path);
    let is_one = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME));
    if !is_one || !path.join("cgroup.kill").exists() {
        return Ok(());
    }
    end(path)?;
    remove(path);
    Ok(())
}

/// Removes empty groups of agents that are gone. One that is not empty cannot be removed.
fn sweep(home: &Path, is_alive: impl Fn(i32, u64) -> bool) {
    for found in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = found.file_name().to_string_lossy().into_owned();
        let agent = name.strip_prefix(NAME).and_then(|name| name.split_once('-'));
        let agent = agent.and_then(|(pid, ticks)| Some((pid.parse().ok()?, ticks.parse().ok()?)));
        if agent.is_some_and(|(pid, ticks)| !is_alive(pid, ticks)) {
            let _ = fs::remove_dir(found.path());
        }
    }
}

/// `0` stands for whoever writes it.
fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// A group that vanishes meanwhile was empty: an agent that starts beside this one removes what others left.
fn end(group: &Path) -> io::Result<()> {
    match kill_all(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        ended => ended,
    }
}

fn kill_all(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.kill"), "1")?;
    let begun = Instant::now();
    while fs::read_to_string(group.join("cgroup.events"))?.lines().any(|line| line == "populated 1") {
        if begun.elapsed() > DIES_WITHIN {
            return Err(io::Error::other(format!("processes in {} cannot be killed", group.display())));
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// With the groups that the program made in it. One that stays behind is empty and costs nothing.
fn remove(group: &Path) {
    for found in fs::read_dir(group).into_iter().flatten().flatten().filter(|found| found.path().is_dir()) {
        remove(&found.path());
    }
    let _ = fs::remove_dir(group);
}

/// The group of this process in the file system: version 2 is line `0::` of `/proc/self/cgroup`, below where it is mounted.
fn home(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let fields: Vec<&str> = mount.split(' ').collect();
    let below = Path::new(path).strip_prefix(fields.get(3)?).ok()?;
    Some(Path::new(fields.get(4)?).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_pure_and_mixed_systems() {
        let pure = "25 30 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let found = home("0::/user.slice/session-2.scope\n", pure);
        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/user.slice/session-2.scope")));
        let mixed = "34 32 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n44 32 0:39 /a /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        assert_eq!(home("9:name=systemd:/x\n0::/a/b\n", mixed), Some(PathBuf::from("/sys/fs/cgroup/unified/b")));
        for (groups, mounts) in [("1:cpu:/", pure), ("0::/", ""), ("0::/elsewhere", mixed)] {
            assert_eq!(home(groups, mounts), None, "{groups}");
        }
    }

    #[test]
    fn a_group_that_vanishes_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        assert!(end(&folder.path().join("gpuplan-1-2")).is_ok());
        // Killed, and removed by another agent before it was seen to be empty.
        fs::write(folder.path().join("cgroup.kill"), "").unwrap();
        assert!(end(folder.path()).is_ok());
        fs::write(folder.path().join("cgroup.events"), "populated 0\nfrozen 0\n").unwrap();
        assert!(end(folder.path()).is_ok());
    }

    #[test]
    fn only_a_group_of_an_agent_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.kill"), "").unwrap();
        end_left_behind(&folder.path().display().to_string()).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("cgroup.kill")).unwrap(), "");
    }
}
