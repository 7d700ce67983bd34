//! What a backend answers, packet by packet.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_wire::Capabilities;
use delphinus_wire::response::{Column, EofPacket, ErrPacket, OK, OkPacket, PrepareOk};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let capabilities = Capabilities(input.flags());
    let payload = input.rest();
    if let Ok(ok) = OkPacket::parse(payload, capabilities) {
        for change in ok.changes.iter().take(payload.len() + 1) {
            let _ = change;
        }
        assert!(ok.changes.iter().count() <= payload.len());
        let mut out = Vec::new();
        ok.put(&mut out, OK, capabilities);
        let again = OkPacket::parse(&out, capabilities).expect("what was written is read");
        assert_eq!((again.affected_rows, again.last_insert_id), (ok.affected_rows, ok.last_insert_id));
        assert_eq!((again.warnings, again.info), (ok.warnings, ok.info));
    }
    if let Ok(err) = ErrPacket::parse(payload) {
        let mut out = Vec::new();
        err.put(&mut out, Capabilities::PROTOCOL_41);
        assert_eq!(ErrPacket::parse(&out), Ok(err));
    }
    if let Ok(column) = Column::parse(payload) {
        let mut out = Vec::new();
        column.put(&mut out, Capabilities::PROTOCOL_41);
        assert_eq!(Column::parse(&out), Ok(column));
    }
    let _ = EofPacket::parse(payload);
    let _ = PrepareOk::parse(payload);
});
