//! Where a relay goes at the word of another process, and where it does not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use delphinus_config::NoEnvironment;
use delphinus_memory::Account;

use super::*;
use crate::backends;

/// A relay that stands still, with these lines in its section. Nothing listens where it is sent.
struct Scene {
    folder: PathBuf,
    relays: Rc<Relays>,
}

impl Scene {
    fn new(name: &str, lines: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("delphinus-relays-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let text = format!(
            "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n[monitor]\nuser = 'm'\npassword = 'p'\n\
             [cluster]\ntopology = 'read_only'\n[[cluster.backend]]\nname = 'db1'\naddress = '127.0.0.1:1'\n\
             [[relay]]\nname = 'r'\nfolder = '{}'\nsource_user = 'u'\nsource_password = 'planted'\nserver_id = 9\nstart = false\n\
             heartbeat_ms = 100\n{lines}\n",
            folder.display()
        );
        let config = delphinus_config::parse(&text, "a.toml", &NoEnvironment)
            .unwrap_or_else(|mistakes| panic!("{mistakes:#?}\n{text}"));
        let memory = Account::unlimited();
        let relays =
            Relays::start(&Surroundings { config: &config, rsa_key: None, memory: &memory }).unwrap();
        Self { folder, relays }
    }

    fn epoch(&self) -> u64 {
        self.relays.fences()[0].epoch
    }

    async fn turn(&self, server: &str, address: &str) -> Result<Option<String>, String> {
        let [server, address, identity] = [server, address, "server-2"].map(str::to_owned);
        let wish = RelayWish::Turn(RelayTurn { server, address, identity, epoch: self.epoch() });
        self.relays.order("r", wish).await
    }

    fn follows(&self) -> Option<(String, String)> {
        self.relays.fences().remove(0).follows
    }

    async fn end(self) {
        self.relays.stop().await;
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// The relay sends its password to whom it follows. An operator's word alone leads it to no strange server.
#[test]
fn a_relay_with_a_source_goes_where_its_section_says_or_to_who_proves_its_name() {
    rt::block_on(async {
        let own = "source = '127.0.0.1:1'\nmay_follow = ['127.0.0.1:2', 'unix:/nowhere/a.sock']";
        let named = Scene::new("named", own);
        for strange in ["127.0.0.1:3", "evil:2", "unix:/nowhere/b.sock", "evil"] {
            let before = (named.epoch(), named.follows());
            let refused = named.turn("db2", strange).await.unwrap_err();
            assert!(refused.contains("may_follow") || refused.contains("no address"), "{strange}: {refused}");
            assert_eq!((named.epoch(), named.follows()), before, "{strange}");
        }
        for known in ["127.0.0.1:2", "127.0.0.1:1", "unix:/nowhere/a.sock"] {
            named.turn("db2", known).await.unwrap();
            assert_eq!(named.follows(), Some(("db2".to_owned(), known.to_owned())));
        }
        let shown = named.relays.fences().remove(0).may_follow.unwrap();
        assert_eq!(shown, ["127.0.0.1:1", "127.0.0.1:2", "unix:/nowhere/a.sock"]);
        named.end().await;
        let print = "aa".repeat(32);
        let checked = format!("source = '127.0.0.1:1'\nsource_tls_fingerprints = ['{print}']");
        let checks = Scene::new("checks", &checked);
        assert_eq!(checks.relays.fences().remove(0).may_follow, None);
        checks.turn("db2", "127.0.0.1:3").await.unwrap();
        // No certificate is shown on a socket.
        assert!(checks.turn("db2", "unix:/nowhere/b.sock").await.is_err());
        checks.end().await;
    })
    .unwrap();
}

/// What is db1 for those who move the role is db2 here.
#[test]
fn a_relay_with_a_cluster_goes_to_the_backend_at_the_address_and_not_to_that_of_the_name() {
    rt::block_on(async {
        let scene = Scene::new("shifted", "cluster = 'main'");
        scene.relays.clusters.replace(vec![backends::tests::sample(&[("db1", 1), ("db2", 2)], &[])]);
        assert_eq!(scene.relays.fences()[0].may_follow.as_deref().unwrap(), ["127.0.0.1:1", "127.0.0.1:2"]);
        scene.turn("db1", "127.0.0.1:2").await.unwrap();
        // What it shows is found by the rule that the word was followed by.
        assert_eq!(scene.follows(), Some(("db2".to_owned(), "127.0.0.1:2".to_owned())));
        let refused = scene.turn("db1", "127.0.0.1:3").await.unwrap_err();
        assert!(refused.contains("no backend at 127.0.0.1:3"), "{refused}");
        assert_eq!(scene.follows(), Some(("db2".to_owned(), "127.0.0.1:2".to_owned())));
        scene.end().await;
    })
    .unwrap();
}

#[test]
fn a_cut_for_another_epoch_says_that_nothing_was_cut() {
    rt::block_on(async {
        let scene = Scene::new("late", "source = '127.0.0.1:1'");
        let late = scene.relays.cut("r", scene.epoch() + 1).await.unwrap_err();
        assert_eq!(late, format!("it was not cut: it is in epoch {} by now", scene.epoch()));
        assert!(scene.relays.cut("r", scene.epoch()).await.unwrap().contains("acknowledges to no source"));
        scene.end().await;
    })
    .unwrap();
}
