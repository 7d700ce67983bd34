//! Packet headers and the primitive types: what is written is read back, and reading never goes past the end.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_wire::{HEADER_LEN, MAX_PAYLOAD, Put, Reader, header, parse_header, put_packet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(frame) = parse_header(data) {
        assert!(frame.len <= MAX_PAYLOAD);
        assert_eq!(header(frame.len, frame.seq)[..], data[..HEADER_LEN]);
    }
    let mut out = Vec::new();
    assert_eq!(put_packet(&mut out, 7, data), 8);
    let frame = parse_header(&out).expect("a header was written");
    assert_eq!((frame.len, frame.seq, &out[HEADER_LEN..]), (data.len(), 7, data));
    read(Input::new(data));
});

/// Each byte chooses what is read next from the bytes at the end.
fn read(mut input: Input<'_>) {
    let choices = input.bytes(16);
    let payload = input.rest();
    let mut reader = Reader::new(payload);
    for choice in choices {
        let before = reader.remaining();
        let done = match choice % 10 {
            0 => reader.u8().is_ok(),
            1 => reader.u16().is_ok(),
            2 => reader.u24().is_ok(),
            3 => reader.u32().is_ok(),
            4 => reader.u64().is_ok(),
            5 => lenenc_comes_back(&mut reader),
            6 => reader.lenenc_bytes().is_ok(),
            7 => reader.nul_bytes().is_ok_and(|text| !text.contains(&0)),
            8 => reader.text_value().is_ok(),
            _ => reader.bytes(usize::from(*choice)).is_ok(),
        };
        assert!(reader.remaining() <= before && reader.remaining() <= payload.len());
        if !done {
            return;
        }
    }
}

fn lenenc_comes_back(reader: &mut Reader<'_>) -> bool {
    let Ok(value) = reader.lenenc_int() else { return false };
    let mut out = Vec::new();
    out.put_lenenc_int(value);
    assert_eq!(Reader::new(&out).lenenc_int(), Ok(value));
    true
}
