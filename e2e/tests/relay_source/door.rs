//! The HTTP door of `delphinus relay`: what a relay does, its replicas and files, metrics, and its commands; `RELAY ROTATE`.

use std::fs;
use std::time::Duration;

use delphinus_e2e::{HttpDoor, Proxy, proxy_binary, until};
use delphinus_sandbox::{Flavor, REPL};
use serde_json::{Value, json};

use crate::keep::follow;
use crate::reset;
use crate::support::{LIMIT, Scene, log_files};

pub(crate) fn tells_and_obeys(flavor: Flavor) {
    let door = HttpDoor::new().unwrap();
    let user = format!("[[relay.user]]\nname = \"{}\"\npassword = \"{}\"", REPL.user, REPL.password);
    let lines = ["addresses = [\"127.0.0.1:PORT\"]", &user, &door.section("")];
    let mut scene = Scene::start(flavor, 1, (&[], &lines));
    scene.has_all_of(scene.primary());
    follow(&scene.cluster.servers[1], scene.port(), flavor.is_mysql());
    until(LIMIT, "the replica to come", || Ok(!table(&door, "relay_replicas").is_empty())).unwrap();

    let (status, body) = ready(&door);
    assert_eq!(
        (status, &body["relays"]),
        (200, &json!([{ "name": "r", "ready": true, "state": "receiving" }]))
    );
    let relays = table(&door, "relays?columns=name,state,compression");
    assert_eq!(relays, [json!(["r", "receiving", "uncompressed"])]);
    let replicas = table(&door, "relay_replicas?columns=relay,server_id,tls,compression");
    assert_eq!(replicas, [json!(["r", 2, 1, "uncompressed"])]);
    let files = table(&door, "relay_files?columns=relay,name,bytes&order_by=name");
    let folder = scene.folders()[0].clone();
    assert_eq!(files.len(), log_files(&folder).len());
    let behind = "delphinus_relay_replica_behind_bytes";
    let is_even =
        || Ok(door.metrics()?.iter().all(|(name, value)| !name.starts_with(behind) || *value < 0.5));
    until(LIMIT, "the replica to have all", is_even).unwrap();
    let metrics = door.metrics().unwrap();
    let is = |series: &str, value: f64| {
        let found: Vec<_> = metrics.iter().filter(|(name, _)| name.starts_with(series)).collect();
        assert!(found.iter().any(|(_, found)| (found - value).abs() < 0.5), "{series}: {found:?}");
    };
    is("delphinus_relay_state{relay=\"r\",state=\"receiving\"}", 1.0);
    is("delphinus_relay_state{relay=\"r\",state=\"failed\"}", 0.0);
    is("delphinus_relay_replicas{relay=\"r\"}", 1.0);
    is("delphinus_relay_files{relay=\"r\"}", f64::from(u32::try_from(files.len()).unwrap()));
    is("delphinus_relay_replica_behind_bytes{relay=\"r\"", 0.0);
    door.satisfies_promtool().unwrap();

    rotates(&scene, &door);
    assert_eq!(command(&door, "operator", "RELAY STOP r").0, 200);
    assert_eq!(table(&door, "relays?columns=state"), [json!(["stopped"])]);
    let (status, why) = command(&door, "operator", "RELAY ROTATE r");
    assert!(status == 409 && why.contains("the relay is stopped"), "{status} {why}");
    assert_eq!(ready(&door).0, 200, "replicas are served all the same");
    assert_eq!(command(&door, "viewer", "RELAY START r").0, 403);
    assert_eq!(command(&door, "operator", "RELAY START r").0, 200);
    scene.is("receiving");
    reset::no_histories_are_mixed(&mut scene);
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// The source begins a new file: not without the right to have it do so.
fn rotates(scene: &Scene, door: &HttpDoor) {
    let (status, why) = command(door, "operator", "RELAY ROTATE r");
    assert!(
        status == 409 && why.contains("1227") && why.contains("GRANT RELOAD ON *.* TO repl"),
        "{status} {why}"
    );
    scene.primary().query(&format!("GRANT RELOAD ON *.* TO {}@'%'", REPL.user)).unwrap();
    let folder = scene.folders()[0].clone();
    for _ in 0..2 {
        // The second time nothing was written since.
        let before = log_files(&folder);
        let (status, said) = command(door, "operator", "RELAY ROTATE r");
        assert_eq!(status, 200, "{said}");
        let last = before.last().unwrap();
        let name = last.file_name().unwrap().to_string_lossy().into_owned();
        assert!(said.contains(&format!("\"{name}\"")), "{name}: {said}");
        assert_eq!(log_files(&folder).len(), before.len() + 1);
        let of_source = fs::read(scene.primary().datadir.join(name)).unwrap();
        assert!(fs::read(last).unwrap() == of_source, "{}", last.display());
    }
}

fn ready(door: &HttpDoor) -> (u16, Value) {
    let reply = door.send("GET", "/readyz", &[], "").unwrap();
    (reply.status, reply.json().unwrap())
}

/// The rows of a table.
fn table(door: &HttpDoor, asked: &str) -> Vec<Value> {
    let reply = door.get(&format!("/v1/tables/{asked}")).unwrap();
    assert_eq!(reply.status, 200, "{asked}: {}", reply.body);
    reply.json().unwrap()["rows"].as_array().unwrap().clone()
}

fn command(door: &HttpDoor, role: &str, text: &str) -> (u16, String) {
    let reply = door.statement_as(role, text, &[]).unwrap();
    (reply.status, reply.body)
}

/// A relay whose source is not there has nothing for replicas.
pub(crate) fn without_a_source_it_is_not_ready() {
    let (door, place) = (
        HttpDoor::new().unwrap(),
        std::env::temp_dir().join(format!("delphinus-door-{}", std::process::id())),
    );
    fs::create_dir_all(&place).unwrap();
    let config = place.join("relay.toml");
    let text = format!(
        "[[relay]]\nname = \"r\"\nfolder = \"{}\"\nsource = \"127.0.0.1:1\"\nsource_user = \"a\"\nsource_password = \"b\"\n\
         server_id = 7\n{}",
        place.join("files").display(),
        door.section("")
    );
    fs::write(&config, text).unwrap();
    let arguments = vec!["relay".to_owned(), "--config".to_owned(), config.display().to_string()];
    let relay =
        Proxy::start_program(proxy_binary().unwrap(), arguments, config.with_extension("log")).unwrap();
    until(LIMIT, "the door", || Ok(door.connect().is_ok())).unwrap();
    until(LIMIT, "an attempt", || Ok(ready(&door).1["relays"][0]["state"] == json!("retrying"))).unwrap();
    let (status, body) = ready(&door);
    let why = body["reasons"][0].as_str().unwrap_or_default();
    assert!(status == 503 && why.contains("relay r: it has no log"), "{body}");
    drop(relay);
    fs::remove_dir_all(place).unwrap();
}
