//! What a client asks, with any capabilities.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_wire::handshake::ComChangeUser;
use delphinus_wire::{Capabilities, Command, bulk_params, execute_params, query_text_at};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let capabilities = Capabilities(input.flags());
    let params = u16::from(input.byte());
    let payload = input.rest();
    let _ = Command::parse(payload);
    if let Ok(at) = query_text_at(payload, capabilities) {
        assert!(payload.is_empty() || at <= payload.len());
    }
    let (single, array) = (execute_params(payload, params, capabilities), bulk_params(payload, params));
    for found in [single, array].into_iter().flatten().flatten() {
        assert!(found.types_flag_at <= payload.len());
        if let Some(types) = found.types {
            assert!(types.start <= types.end && types.end <= payload.len());
        }
    }
    if let Ok(command) = ComChangeUser::parse(payload, capabilities) {
        let again = ComChangeUser::parse(&command.encode(capabilities), capabilities);
        let again = again.expect("what was written is read");
        assert_eq!(
            (&again.user, &again.answer, &again.schema),
            (&command.user, &command.answer, &command.schema)
        );
        assert_eq!(again.collation, command.collation);
    }
});
