//! MariaDB Connector/J: Maven's jars hold no tests, Debian's source of the driver does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::{Flavor, ensure_packages, unpack_debian_source};

use crate::cached::{files_below, folder};
use crate::programs::{copy_tree, is_installed, run};
use crate::suites::suite::{Compression, Suite};
use crate::suites::target::Target;
use crate::suites::verdicts;

/// The source package, its version, and the release of Debian that has it.
const SOURCE: (&str, &str) = ("mariadb-connector-java", "2.7.6-1");
const RELEASE: &str = "trixie";
const BUILD_LIMIT: Duration = Duration::from_mins(15);

const CLEAR: &str = "logs in over plain TCP as a user that the primary checks, and will not encrypt the password \
     (`allowPublicKeyRetrieval`), which the proxy has to hand on";
const COUNTER: &str = "reads the server's count of INSERTs of its session (`SHOW STATUS`), and a connection has counted those of others; \
     alone it finds none";
const KNOWN: [(&str, &str); 8] = [
    ("org.mariadb.jdbc.ConnectionTest.multiAuthPlugin", CLEAR),
    ("org.mariadb.jdbc.ConnectionTest.verificationEd25519AuthPlugin", CLEAR),
    (
        "org.mariadb.jdbc.SslTest.mandatorySsl",
        "wants a client without TLS refused because of its account (`REQUIRE SSL`): the server sees the proxy's connection, which has TLS; \
         of clients it is asked by the listener's `tls_mode`",
    ),
    (
        "org.mariadb.jdbc.SslTest.enabledSslCipherSuites",
        "asks for a cipher suite without forward secrecy or AEAD only",
    ),
    (
        "org.mariadb.jdbc.DriverTest.parameterMetaDataPreparable",
        "counts the statements that the server holds prepared, of which the proxy keeps some for others",
    ),
    ("org.mariadb.jdbc.MultiTest.rewriteErrorRewriteMulti", COUNTER),
    ("org.mariadb.jdbc.MultiTest.semicolonTest", COUNTER),
    ("org.mariadb.jdbc.MariaDbPoolDataSourceTest.ensureClosed", "counts the connections that the server has"),
];

pub(crate) const SUITE: Suite = Suite {
    key: "mariadb-connector-j",
    title: "MariaDB Connector/J 2.7.6",
    origin: "its own tests, from Debian's source package",
    schemas: &["testj"],
    compression: Compression::Option,
    fewest: 600,
    flavors: &[Flavor::MariaDb],
    limit: Duration::from_mins(15),
    known: &KNOWN,
    command,
    read: verdicts::of_own,
};

fn command(target: &Target, only: Option<&str>) -> Result<Command> {
    let built = built()?;
    let address = &target.address;
    let mut url = format!(
        "-DdbUrl=jdbc:mariadb://{}:{}/{}?user={}&password={}",
        address.host, address.port, address.database, address.user, address.password
    );
    url.push_str(if target.variant.tls { "&useSsl=true&trustServerCertificate=true" } else { "" });
    url.push_str(if target.variant.compression { "&useCompression=true" } else { "" });
    let mut command = Command::new("java");
    command.current_dir(&built).args(["-Xmx1g", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC", &url]);
    command.args([
        "-cp",
        "tests:classes:src/test/resources:src/main/resources:lib/*",
        "SuiteRunner",
        "tests",
    ]);
    command.args(only);
    Ok(command)
}

/// A folder with the driver's `classes`, its `tests` and what both need in `lib`.
fn built() -> Result<PathBuf> {
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/java/SuiteRunner.java");
    folder(&format!("suite-{}-{}", SOURCE.0, SOURCE.1), std::slice::from_ref(&runner), |dir| {
        if !is_installed("javac") || !is_installed("mvn") {
            ensure_packages(&["default-jdk-headless", "maven"])?;
        }
        // The archive is unpacked without the folder that is around it into an empty one.
        let source = dir.join("source");
        std::fs::create_dir(&source)?;
        unpack_debian_source(SOURCE, RELEASE, &source)?;
        copy_tree(&source, dir)?;
        std::fs::remove_dir_all(&source)?;
        let mut mvn = Command::new("mvn");
        mvn.current_dir(dir).args(["--quiet", "--batch-mode", "dependency:copy-dependencies"]);
        run(mvn.arg("-DoutputDirectory=lib"), BUILD_LIMIT)?.success()?;
        compile(dir, &dir.join("src/main/java"), ("lib/*", "classes"), None)?;
        compile(dir, &dir.join("src/test/java"), ("classes:lib/*", "tests"), Some(&runner))
    })
}

fn compile(dir: &Path, sources: &Path, (with, to): (&str, &str), one_more: Option<&Path>) -> Result<()> {
    let mut javac = Command::new("javac");
    javac.current_dir(dir).args(["-nowarn", "-encoding", "UTF-8", "-proc:none", "-cp", with, "-d", to]);
    let files = files_below(sources)?.into_iter();
    // The names of modules are for a build that makes some.
    javac.args(files.filter(|file| {
        file.extension().is_some_and(|end| end == "java") && !file.ends_with("module-info.java")
    }));
    run(javac.args(one_more), BUILD_LIMIT)?.success().map(drop)
}
