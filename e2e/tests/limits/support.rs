//! A cluster whose proxy has limits, operators among its users, and an admin listener.

use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Login, Operators, ServerError, Stage, until};
use delphinus_sandbox::{APP, Account, Flavor};

pub(crate) const LIMIT: Duration = Duration::from_mins(1);
pub(crate) const BOTH: [Flavor; 2] = [Flavor::MariaDb, Flavor::MySql];

/// The operator among the users.
pub(crate) const OPERATOR: &str =
    "[[user]]\nname = \"admin\"\npassword = \"adminpw\"\nconnection_admin = true\n";

pub(crate) struct Limits {
    pub(crate) stage: Stage,
    admin: Address,
}

/// The error of a login that has to fail.
pub(crate) fn refusal<T>(login: anyhow::Result<T>) -> ServerError {
    match login {
        Ok(_) => panic!("it was let in"),
        Err(error) => error.downcast::<ServerError>().unwrap(),
    }
}

/// A value of SHOW STATUS.
pub(crate) fn status(operator: &mut Client, name: &str) -> u64 {
    let rows = operator.rows("SHOW STATUS").unwrap();
    let row = rows.iter().find(|row| row[0].as_deref() == Some(name)).unwrap();
    row[1].as_deref().unwrap().parse().unwrap()
}

impl Limits {
    /// With more lines for the servers, and what a test wants of the proxy.
    pub(crate) fn start(flavor: Flavor, cnf: &[&str], config: &ConfigFile) -> Self {
        let operators = Operators::default();
        let mut config = config.clone();
        config.sections.push(operators.section());
        let stage = Stage::with_servers(flavor, cnf, &config).unwrap();
        let admin = operators.address(&stage.address);
        Self { stage, admin }
    }

    pub(crate) fn login(address: &Address, (user, password): (&str, &str), over_tcp: bool) -> Login {
        let address = Address { database: String::new(), ..address.clone() };
        let mut login = Login::new(&address);
        (login.user, login.password) = (user.to_owned(), password.to_owned());
        if over_tcp { login.over_tcp(&address) } else { login }
    }

    pub(crate) fn log_in(&self, account: &Account, over_tcp: bool) -> anyhow::Result<Client> {
        Client::connect(&Self::login(&self.stage.address, (account.user, account.password), over_tcp))
    }

    /// A session of the application, over the Unix socket.
    pub(crate) fn app(&self) -> anyhow::Result<Client> {
        self.log_in(&APP, false)
    }

    pub(crate) fn app_over_tcp(&self) -> anyhow::Result<Client> {
        self.log_in(&APP, true)
    }

    /// Becomes a user whose password is its name and `pw`.
    pub(crate) fn change_user(&self, client: &mut Client, user: &str) -> anyhow::Result<()> {
        client.change_user(&Self::login(&self.stage.address, (user, &format!("{user}pw")), false))
    }

    /// Where operators connect.
    pub(crate) fn admin_address(&self) -> &Address {
        &self.admin
    }

    /// A connection of the operators' own listener.
    pub(crate) fn operator(&self) -> Client {
        self.admin.connect().unwrap()
    }

    /// Waits until nobody is connected: clients that have said goodbye may still be on their way out.
    pub(crate) fn all_gone(&self) {
        let mut operator = self.operator();
        until(LIMIT, "everybody to leave", || {
            Ok(operator.rows("SHOW SESSIONS")?.is_empty() && status(&mut operator, "delphinus_clients") == 0)
        })
        .unwrap();
    }

    /// The same for one user.
    pub(crate) fn gone(&self, user: &str) {
        let mut operator = self.operator();
        let like = format!("SHOW SESSIONS LIKE '{user}'");
        until(LIMIT, "a user to leave", || Ok(operator.rows(&like)?.is_empty())).unwrap();
    }
}
