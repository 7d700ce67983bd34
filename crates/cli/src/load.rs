//! Reads a configuration file of the operating system, with the variables and files it refers to.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use delphinus_config::{AdminAccess, Config, Environment, Mistake, options, parse};

/// The variables of this process and the files of this machine.
struct ThisMachine;

impl Environment for ThisMachine {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }
}

/// The same, and keeps in mind which files were read: all of them, and those that hold secrets.
#[derive(Default)]
struct Watching {
    all: RefCell<Vec<PathBuf>>,
    secret: RefCell<Vec<PathBuf>>,
}

impl Environment for Watching {
    fn variable(&self, name: &str) -> Option<String> {
        ThisMachine.variable(name)
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        // Also one that cannot be read: it may come.
        self.all.borrow_mut().push(path.to_owned());
        let text = ThisMachine.read_file(path)?;
        let is_public = text.contains("-----BEGIN ") && !text.contains("PRIVATE KEY-----");
        if !is_public {
            self.secret.borrow_mut().push(path.to_owned());
        }
        Ok(text)
    }
}

/// The configuration, or what is wrong with it.
type Loaded = Result<Config, Vec<Mistake>>;

/// The configuration in a file or all mistakes in it, and what everybody on this machine can read of its secrets.
pub(crate) fn load_and_look(file: &Path) -> anyhow::Result<(Loaded, Vec<String>)> {
    let watching = Watching::default();
    let loaded = load_with(file, &watching)?;
    let mut secret = watching.secret.into_inner();
    if let Ok(config) = &loaded
        && holds_secret(config)
    {
        secret.insert(0, file.to_owned());
    }
    secret.dedup();
    let is_open = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o004 != 0);
    let warn = |path: PathBuf| {
        let path = path.display();
        format!("{path}: every user of this machine can read the secrets in it; chmod 0600 {path}")
    };
    Ok((loaded, secret.into_iter().filter(is_open).map(warn).collect()))
}

/// True if a secret stands in the file itself. The schema says which options are secrets, so that none is forgotten.
fn holds_secret(config: &Config) -> bool {
    let own = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let secrets: Vec<_> =
        options().iter().filter(|option| option.is_secret).map(|option| own(&option.path)).collect();
    config.effective.0.iter().any(|(path, value)| !value.is_empty() && secrets.contains(&own(path)))
}

/// What stands for a secret that this process cannot have.
pub(crate) const NOT_HERE: &str = "-----BEGIN NOT HERE-----";

/// The same for somebody who does not run the proxy: secrets that only the proxy can have do not matter.
struct Visitor;

impl Environment for Visitor {
    fn variable(&self, name: &str) -> Option<String> {
        Some(ThisMachine.variable(name).unwrap_or_else(|| NOT_HERE.to_owned()))
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        Ok(ThisMachine.read_file(path).unwrap_or_else(|_| NOT_HERE.to_owned()))
    }
}

/// How operators get in, as far as a file says that; mistakes in it do not matter. Secrets need not be there: they are `NOT_HERE` then.
pub(crate) fn admin_access(file: &Path) -> anyhow::Result<AdminAccess> {
    let bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(AdminAccess::read(&String::from_utf8_lossy(&bytes), &file.to_string_lossy(), &Visitor))
}

fn load_with(file: &Path, environment: &dyn Environment) -> anyhow::Result<Loaded> {
    Ok(parse(&text_of(file)?, &file.to_string_lossy(), environment))
}

/// The text of a file.
pub(crate) fn text_of(file: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        anyhow::anyhow!("{}:{line}: not UTF-8; save the file as UTF-8", file.display())
    })
}

/// What a text means as the content of this file, and the files that it names.
pub(crate) fn read_text(text: &str, file: &Path) -> (Loaded, Vec<PathBuf>) {
    let watching = Watching::default();
    let loaded = parse(text, &file.to_string_lossy(), &watching);
    (loaded, watching.all.into_inner())
}

/// Puts a text in the place of what a file has: whole or not at all, with the same owner and mode.
pub(crate) fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    // A link stays one.
    let file = std::fs::canonicalize(file).with_context(|| format!("{} cannot be found", file.display()))?;
    let found = std::fs::metadata(&file)?;
    let new = file.with_extension(format!("new-{}", std::process::id()));
    let write = || -> anyhow::Result<()> {
        let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        // Only root may give files away; whoever is not the owner keeps what it has made.
        let _ = std::os::unix::fs::chown(&new, Some(found.uid()), Some(found.gid()));
        std::fs::set_permissions(&new, found.permissions())?;
        std::fs::rename(&new, &file)?;
        Ok(())
    };
    write()
        .inspect_err(|_| _ = std::fs::remove_file(&new))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Prints mistakes to standard error, one in each line, and how many there are.
pub(crate) fn print_mistakes(file: &Path, mistakes: &[Mistake]) {
    for mistake in mistakes {
        eprintln!("{mistake}");
    }
    let noun = if mistakes.len() == 1 { "mistake" } else { "mistakes" };
    eprintln!("{}: {} {noun}", file.display(), mistakes.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_any_secret_in_it_is_one_to_hide() {
        let with = |more: &str| {
            let text = format!(
                "listener = [{{ address = '127.0.0.1:0' }}]\nuser = [{{ name = 'u', password_env = 'P' }}]\n\
                 [[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n\
                 [monitor]\nuser = 'm'\npassword_env = 'P'\n{more}"
            );
            holds_secret(&parse(&text, "a.toml", &Visitor).unwrap_or_else(|mistakes| panic!("{mistakes:?}")))
        };
        assert!(!with(""));
        assert!(with("[lease]\nfailsafe_token = 'hunter2'\n"));
        assert!(with("[cluster.failover]\nreplication_password = 'hunter2'\n"));
    }
}
