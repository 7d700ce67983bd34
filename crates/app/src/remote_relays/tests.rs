//! What relays of other processes answer, and what is believed of it.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use delphinus_config::NoEnvironment;

use super::*;

fn told(cells: &[(&str, Option<&str>)]) -> Asked {
    let columns = cells.iter().map(|(name, _)| ((*name).to_owned(), false)).collect();
    Asked::Rows(columns, vec![cells.iter().map(|(_, cell)| cell.map(str::to_owned)).collect()])
}

const ROW: [(&str, Option<&str>); 12] = [
    ("name", Some("far")),
    ("server_id", Some("999")),
    ("address", Some("[::1]:3306")),
    ("epoch", Some("7")),
    ("cut_by", Some("move")),
    ("on_disk", Some("1")),
    ("acknowledges_to", None),
    ("refused", Some("server-1,server-3")),
    ("follows_address", Some("db2.example:3306")),
    ("state", Some("cut")),
    ("acknowledging", Some("0")),
    ("gtid_executed", Some("0-1-42")),
];

#[test]
fn what_a_relay_says_of_itself_is_read() {
    let find = |address: &Address| (address.to_string() == "db2.example:3306").then(|| "db2".into());
    let (at, own) = read(&told(&ROW), "far", &find).unwrap();
    assert_eq!(at, At { host: "::1".into(), port: 3306, number: 999 });
    assert!(own.is_cut && own.is_by_move && !own.forgets && !own.is_receiving);
    assert_eq!((own.epoch, own.follows.as_deref(), own.has.to_string()), (7, Some("db2"), "0-1-42".into()));
    assert_eq!(*own.refused, [Arc::from("server-1"), "server-3".into()]);
    // The table has these columns.
    let table = delphinus_admin::tables().into_iter().find(|info| info.table.name == "relay_fences").unwrap();
    let has = |name: &str| table.table.columns.iter().any(|column| column.name == name);
    assert!(ROW.iter().all(|(name, _)| has(name)));
}

/// Of what is not understood nothing is believed.
#[test]
fn an_answer_of_another_form_is_none() {
    let find = |_: &Address| None;
    let why = |asked: &Asked| read(asked, "far", &find).unwrap_err();
    assert_eq!(why(&Asked::Done), OTHER);
    for (left_out, (column, _)) in ROW.iter().enumerate() {
        let mut row = ROW.to_vec();
        row.remove(left_out);
        assert_eq!(why(&told(&row)), OTHER, "{column}");
    }
    for (column, wrong) in [("epoch", Some("x")), ("on_disk", None), ("gtid_executed", Some("0-1"))] {
        let row = ROW.map(|(name, cell)| (name, if name == column { wrong } else { cell }));
        assert_eq!(why(&told(&row)), OTHER, "{column}");
    }
    assert!(read(&told(&ROW), "near", &find).unwrap_err().contains("no relay 'near' runs"));
    assert!(
        why(&told(&ROW.map(|(name, cell)| (name, cell.filter(|_| name != "address")))))
            .contains("report_address")
    );
}

/// Sections of these names and addresses.
fn sections_of(relays: &[(&str, &str)]) -> Arc<[RemoteRelay]> {
    let text = relays.iter().map(|(name, address)| {
        format!("[[cluster.failover.remote_relay]]\nname = '{name}'\naddress = '{address}'\nuser = 'o'\npassword = 'p'\n")
    });
    let head = "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n[monitor]\nuser = 'm'\npassword = 'p'\n\
                [cluster]\ntopology = 'read_only'\n[[cluster.backend]]\naddress = 'db1:3306'\n[cluster.failover]\nuser = 'u'\npassword = 'p'\n";
    let text = head.to_owned() + &text.collect::<String>();
    let config = delphinus_config::parse(&text, "a.toml", &NoEnvironment).unwrap();
    crate::switching::remote_relays(&config.clusters[0])
}

/// Its line is open, and holds its password.
#[test]
fn what_a_reload_has_removed_is_forgotten() {
    let sections = sections_of(&[("one", "unix:/run/a.sock"), ("two", "unix:/run/a.sock")]);
    let (sender, receiver) = watch::channel(sections.clone());
    let relays = RemoteRelays::new(receiver);
    let known = || {
        let mut known: Vec<_> = relays.known.borrow().keys().cloned().collect();
        known.sort();
        known
    };
    let ask_all = || sections.iter().for_each(|one| relays.with(one, |_| ()));
    ask_all();
    relays.forget_removed();
    assert_eq!(known(), ["one", "two"]);
    sender.send_replace(sections[..1].into());
    relays.forget_removed();
    assert_eq!(known(), ["one"], "its section is gone");
}

#[test]
fn names_with_quotes_are_told_as_they_are() {
    assert_eq!(quoted("d'b"), "'d''b'");
}

/// A packet with this payload.
fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    packet.push(seq);
    packet.extend_from_slice(payload);
    packet
}

/// The payload of the next packet; `None`: the connection has ended.
fn next(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

/// A listener lets a client in, whoever it is.
fn greet(stream: &mut UnixStream) {
    let capabilities = 0x0008_8200_u32.to_le_bytes();
    let mut greeting = b"\x0a9.7.4\0\x01\0\0\0abcdefgh\0".to_vec();
    greeting.extend_from_slice(&capabilities[..2]);
    greeting.extend_from_slice(&[45, 2, 0]);
    greeting.extend_from_slice(&capabilities[2..]);
    greeting.extend_from_slice(&[21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    greeting.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
    stream.write_all(&packet(0, &greeting)).unwrap();
    next(stream).unwrap();
    stream.write_all(&packet(2, &OK)).unwrap();
}

/// A short text with its length.
fn counted(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

/// An answer of one row.
fn rows(cells: &[(&str, Option<&str>)]) -> Vec<u8> {
    let eof = [0xfe, 0, 0, 2, 0];
    let mut payloads = vec![vec![cells.len() as u8]];
    for (name, _) in cells {
        let mut column = ["def", "", "", "", name, ""].map(counted).concat();
        column.extend_from_slice(&[12, 45, 0, 255, 0, 0, 0, 253, 0, 0, 0, 0, 0]);
        payloads.push(column);
    }
    payloads.push(eof.to_vec());
    payloads.push(cells.iter().flat_map(|(_, cell)| cell.map_or(vec![0xfb], counted)).collect());
    payloads.push(eof.to_vec());
    payloads.iter().zip(1..).flat_map(|(payload, seq)| packet(seq, payload)).collect()
}

/// What a relay's process does when it has done a cut, and the connection breaks before the answer: what is asked then, and this row.
fn loses_an_answer(listener: &UnixListener, row: &[(&str, Option<&str>)]) -> Vec<String> {
    let mut heard = Vec::new();
    let (mut stream, _) = listener.accept().unwrap();
    greet(&mut stream);
    next(&mut stream).unwrap();
    stream.write_all(&rows(row)).unwrap();
    next(&mut stream).unwrap();
    drop(stream);
    let (mut stream, _) = listener.accept().unwrap();
    greet(&mut stream);
    while let Some(query) = next(&mut stream) {
        let text = String::from_utf8_lossy(&query[1..]).into_owned();
        let answer = if text.starts_with("RELAY CUT") {
            packet(1, b"\xff\x51\x04#HY000it was not cut: it is in epoch 8 by now")
        } else {
            rows(row)
        };
        stream.write_all(&answer).unwrap();
        heard.push(text);
    }
    heard
}

/// The order was said twice, and the second time it came late for itself.
#[test]
fn a_cut_whose_answer_was_lost_is_done() {
    let with = |changes: &[(&str, Option<&'static str>)]| {
        ROW.map(|(name, cell)| {
            let change = changes.iter().find(|(changed, _)| *changed == name);
            (name, change.map_or(cell, |(_, cell)| *cell))
        })
    };
    let epoch = ("epoch", Some("8"));
    for (number, (row, is_done)) in [
        (with(&[epoch]), true),
        (with(&[epoch, ("on_disk", Some("0"))]), false),
        (with(&[epoch, ("cut_by", Some("operator"))]), false),
        (with(&[("epoch", Some("9"))]), false),
    ]
    .into_iter()
    .enumerate()
    {
        let path = std::env::temp_dir().join(format!("delphinus-far-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let serving = std::thread::spawn(move || loses_an_answer(&listener, &row));
        let sections = sections_of(&[("far", &format!("unix:{}", path.display()))]);
        let relays = RemoteRelays::new(watch::channel(sections.clone()).1);
        let cut = rt::block_on(async {
            relays.fence(&sections[0]).await.unwrap();
            relays.cut(&sections[0], 7).await
        })
        .unwrap();
        drop(relays);
        assert_eq!(cut.is_ok(), is_done, "{cut:?}");
        assert!(is_done || cut.unwrap_err().contains("epoch 8 by now"));
        let heard = serving.join().unwrap();
        assert_eq!(heard, ["RELAY CUT 'far' BY MOVE EPOCH 7", "SHOW RELAY FENCES"]);
        std::fs::remove_file(&path).unwrap();
    }
}
