//! Whether the HTTP door does what its OpenAPI document says, as other people's tools see it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::drivers::venv;
use crate::http_door::{HttpDoor, bearer};
use crate::programs::run;

/// How long all requests may take.
const LIMIT: Duration = Duration::from_mins(5);
/// Requests for each operation, beside those that try the ends of each value.
const EXAMPLES: &str = "20";
/// It wants every statement that is a text to be taken: no schema says what SQL is. And it tries wrong tokens, which takes its time, as
/// they are delayed; other tests do that.
const NOT_CHECKED: &str = "positive_data_acceptance,ignored_auth";

impl HttpDoor {
    /// Has the document checked, and the door against it, with the token of a viewer.
    pub fn keeps_its_contract(&self) -> Result<()> {
        let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers/contract/requirements.txt");
        let programs = venv("contract", &requirements)?.join("bin");
        let folder = std::env::temp_dir().join(format!("delphinus-contract-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let document = folder.join("openapi.json");
        std::fs::write(&document, self.get("/v1/openapi.json")?.body)?;
        run(Command::new(programs.join("openapi-spec-validator")).arg(&document), LIMIT)?.success()?;
        let mut asks = Command::new(programs.join("schemathesis"));
        asks.current_dir(&folder).args(["run", "--no-color", "--generation-deterministic", "--seed", "1"]);
        asks.args(["--max-examples", EXAMPLES, "--exclude-checks", NOT_CHECKED]);
        asks.args(["--phases", "examples,coverage,fuzzing", "-H", &bearer(Self::token("viewer"))]);
        asks.arg(format!("{}/v1/openapi.json", self.url()));
        let said = run(&mut asks, LIMIT)?.success().context("schemathesis");
        std::fs::remove_dir_all(&folder)?;
        said.map(drop)
    }
}
