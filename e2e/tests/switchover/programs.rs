//! The operators' programs run around each move: the one before may refuse it, the one after hears how it ended.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::support::Scene;

/// A folder with both programs. What they hear is in `heard`; where there is a file `no`, the move is refused.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("delphinus-programs-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let hears =
        "echo \"$(basename $0) $DELPHINUS_KIND $DELPHINUS_FROM $DELPHINUS_TO $DELPHINUS_STATE\" >> heard";
    for (program, more) in
        [("before-move", "if [ -e no ]; then echo not today; exit 7; fi"), ("after-move", "")]
    {
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\ncd \"$(dirname $0)\"\n{hears}\n{more}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    folder
}

/// The line of `[cluster.failover]`.
pub(crate) fn option(folder: &Path) -> String {
    format!("hook_folder = \"{}\"", folder.display())
}

pub(crate) fn programs_run_around_moves(scene: &Scene, folder: &Path) {
    let heard = folder.join("heard");
    // What earlier moves have said.
    fs::write(&heard, "").unwrap();
    fs::write(folder.join("no"), "").unwrap();
    let refused = scene.refused("SWITCHOVER TO replica1");
    let expected = "nothing was changed: the program before-move has failed: exit code 7. It said: not today";
    assert!(refused.message.contains(expected), "{refused}");
    scene.assert_primary("primary");
    fs::remove_file(folder.join("no")).unwrap();
    let line = scene.rows("SWITCHOVER TO replica1");
    for program in ["before-move", "after-move"] {
        let step = format!("run {program}");
        let told = scene.rows("SELECT step FROM switchovers");
        assert!(told.iter().any(|row| row[0] == step), "{line:?}");
    }
    scene.rows("SWITCHOVER TO primary");
    let heard = fs::read_to_string(heard).unwrap();
    let heard: Vec<_> = heard.lines().collect();
    let expected = [
        "before-move switchover primary replica1 running",
        "after-move switchover primary replica1 failed",
        "before-move switchover primary replica1 running",
        "after-move switchover primary replica1 done",
        "before-move switchover replica1 primary running",
        "after-move switchover replica1 primary done",
    ];
    assert_eq!(heard, expected);
    fs::remove_dir_all(folder).unwrap();
}
