//! The table `doctor`, and `DOCTOR`.

use delphinus_tables::{Column, Table};

use crate::answer::Refused;
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::text;
use crate::users::AdminRole;

pub(crate) static DOCTOR: Source = Source {
    table: Table {
        name: "doctor",
        help: "What is wrong with the running configuration and with its servers, the worst first. A SELECT of it \
         asks every server, and logs in to each as each user whose password the file has.",
        columns: &[
            Column::text(
                "severity",
                "serious: clients see errors or wrong answers, now or at the next failover; warning; note.",
            ),
            Column::text("check_name", "The check that has found it: docs/doctor.md."),
            Column::text("object", "What it is about."),
            Column::text("found", "What was found."),
            Column::text("why", "What its consequences are."),
            Column::text("fix", "A command or a line of the configuration that fixes it."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Asking(|console, _| Box::pin(rows(console))),
};

const BUSY: &str =
    "others have the servers examined, and these examinations have not ended in time; try again";

async fn rows(console: &Console) -> Result<Cells, Refused> {
    // Each logs in to every server several times: many at the same time would take the servers' connections.
    let turn = console.examinations.take("").await.ok_or_else(|| Refused::because(BUSY))?;
    let found = console.parts.proxy.faults().await;
    drop(turn);
    let row = |finding: &delphinus_doctor::Finding| {
        let cells = [
            finding.severity.as_str(),
            finding.check,
            &finding.object,
            &finding.found,
            finding.why,
            &finding.fix,
        ];
        cells.map(text).into()
    };
    Ok(found.iter().map(row).collect())
}
