import com.mysql.cj.jdbc.JdbcConnection;
import com.mysql.cj.jdbc.JdbcStatement;
import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.security.MessageDigest;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Connector/J: text, server-side prepared, cursors (COM_STMT_FETCH), streams, batches, LOAD DATA, change user, reset. */
public final class Main {
    private static final int MEGABYTE = 1 << 20;
    private static final int BIG = 17 * MEGABYTE;
    private static String flavor;

    private Main() { }

    private static String table(String name) {
        return Checks.PREFIX + "_" + name;
    }

    public static void main(String[] args) throws Exception {
        try (Connection connection = Checks.connect()) {
            flavor = Checks.one(connection, "SELECT VERSION()").contains("MariaDB") ? "mariadb" : "mysql";
        }
        Checks.check("login_tcp", Main::login);
        Checks.check("refused_logins", Main::refusedLogins);
        for (String binary : List.of("false", "true")) {
            String kind = binary.equals("true") ? "prepared" : "text";
            Checks.check(kind + "_types", () -> types(binary));
            Checks.check(kind + "_insert_ids", () -> insertIds(binary));
            Checks.check(kind + "_batches", () -> batches(binary));
            Checks.check(kind + "_big_values_1m", () -> bigValues(binary, MEGABYTE));
            Checks.check(kind + "_big_values_17m", () -> bigValues(binary, BIG));
            Checks.check(kind + "_transactions", () -> transactions(binary));
            Checks.check(kind + "_found_rows_flag", () -> foundRows(binary));
            Checks.check(kind + "_stream_many_rows", () -> stream(binary));
            Checks.check(kind + "_pool_of_connections", () -> transfers(binary));
        }
        Checks.check("prepared_again_with_other_types", Main::preparedAgain);
        Checks.check("prepared_many", Main::preparedMany);
        Checks.check("prepared_cursor_fetch", Main::cursorFetch);
        Checks.check("multi_statements", Main::multiStatements);
        Checks.check("stored_procedure", Main::procedure);
        Checks.check("load_data_local", Main::loadData);
        Checks.check("ping_reset_and_change_user", Main::pingResetChangeUser);
        Checks.check("query_timeout", Main::queryTimeout);
        Checks.check("metadata", Main::metadata);
        if (Checks.env("MORE").equals("on")) {
            More.run();
        }
        for (Checks.Scenario scenario : Checks.scenarios(flavor)) {
            Checks.check("scenario_" + scenario.name + "_text", () -> Checks.play(scenario, false));
            if (!scenario.text_only) {
                Checks.check("scenario_" + scenario.name + "_prepared", () -> Checks.play(scenario, true));
            }
        }
        System.exit(Checks.failed ? 1 : 0);
    }

    private static void login() throws Exception {
        try (Connection connection = Checks.connect()) {
            Checks.expect("CURRENT_USER()", Checks.one(connection, "SELECT CURRENT_USER()").split("@")[0], Checks.env("USER"));
            Checks.expect("is valid", connection.isValid(10), true);
            String told = connection.getMetaData().getDatabaseProductVersion().replaceFirst("^5\\.5\\.5-", "");
            Checks.expect("version", told, Checks.one(connection, "SELECT VERSION()"));
            Checks.expect("charset", Checks.one(connection, "SELECT @@character_set_client"), "utf8mb4");
        }
    }

    private static void refusedLogins() throws Exception {
        Checks.expectError(() -> Checks.connect("password", "certainly wrong"), "28000", 1045);
        Checks.expectError(() -> Checks.connect("password", ""), "28000", 1045);
        // MariaDB itself asks unknown users for any plugin that it has; the driver does not know ed25519 (error 0).
        Integer[] unknownUser = flavor.equals("mariadb") ? new Integer[] {1045, 0} : new Integer[] {1045};
        Checks.expectError(() -> Checks.connect("user", "nobody_at_all"), null, unknownUser);
        Checks.expectError(() -> Checks.connect("database", "nowhere_" + Checks.PREFIX), "42000", 1049, 1044);
    }

    private static byte[] allBytes() {
        byte[] all = new byte[256];
        for (int i = 0; i < 256; i++) {
            all[i] = (byte) i;
        }
        return all;
    }

    private static byte[] repeated(byte[] part, int times) {
        byte[] all = new byte[part.length * times];
        for (int i = 0; i < all.length; i++) {
            all[i] = part[i % part.length];
        }
        return all;
    }

    private record Sample(String kind, Object value) { }

    private static final List<Sample> SAMPLES = List.of(
        new Sample("TINYINT", (byte) -128), new Sample("TINYINT UNSIGNED", (short) 255), new Sample("SMALLINT", (short) -32768),
        new Sample("MEDIUMINT", 8388607), new Sample("INT", Integer.MIN_VALUE), new Sample("INT UNSIGNED", 4294967295L),
        new Sample("BIGINT", Long.MIN_VALUE), new Sample("BIGINT UNSIGNED", new BigInteger("18446744073709551615")),
        new Sample("FLOAT", 1.5f), new Sample("DOUBLE", -2.25e300), new Sample("DECIMAL(30,10)", new BigDecimal("-12345678901234567890.0123456789")),
        new Sample("DATE", LocalDate.of(1900, 1, 1)), new Sample("DATETIME(6)", LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_999_000)),
        new Sample("TIMESTAMP(6) NULL", LocalDateTime.of(2038, 1, 19, 1, 2, 3, 456_789_000)),
        new Sample("TIME(6)", LocalTime.of(23, 59, 58, 999_999_000)), new Sample("YEAR", 2155), new Sample("CHAR(10)", "0123456789"),
        new Sample("VARCHAR(200)", "naïve 🐬 'quoted' \\ \"%s\" ?"), new Sample("VARBINARY(300)", allBytes()),
        new Sample("LONGBLOB", repeated(allBytes(), 1000)), new Sample("LONGTEXT", "\0\n\r\t\u001a😀"), new Sample("ENUM('a','b')", "b"),
        new Sample("SET('x','y')", "x,y"), new Sample("JSON", "{\"a\": [1, \"é😀\"]}"), new Sample("LONGTEXT", ""));

    private static void types(String binary) throws Exception {
        String name = table("types_" + binary);
        List<String> columns = new ArrayList<>();
        for (int i = 0; i < SAMPLES.size(); i++) {
            columns.add("c" + i + " " + SAMPLES.get(i).kind());
        }
        String marks = ", ?".repeat(SAMPLES.size());
        try (Connection connection = Checks.connect("useServerPrepStmts", binary, "forceConnectionTimeZoneToSession", "true")) {
            Checks.execute(connection, "CREATE TABLE " + name + " (id INT AUTO_INCREMENT PRIMARY KEY, " + String.join(", ", columns) + ") CHARACTER SET utf8mb4");
            // The driver sends a BigInteger to MariaDB as a signed number.
            Object[] values = SAMPLES.stream().map(Sample::value).map(v -> v instanceof BigInteger ? v.toString() : v).toArray();
            for (Object[] row : List.of(values, new Object[values.length], values)) {
                Checks.expect("affected", Checks.execute(connection, "INSERT INTO " + name + " VALUES (NULL" + marks + ")", row), 1);
            }
            connection.setAutoCommit(false);
            try (PreparedStatement select = connection.prepareStatement("SELECT * FROM " + name + " ORDER BY id"); ResultSet rows = select.executeQuery()) {
                for (boolean isNull : new boolean[] {false, true, false}) {
                    Checks.expect("a row", rows.next(), true);
                    expectRow(rows, isNull);
                }
                Checks.expect("a row too many", rows.next(), false);
            }
            connection.commit();
        } finally {
            Checks.drop(name);
        }
    }

    private static void expectRow(ResultSet rows, boolean isNull) throws SQLException {
        for (int i = 0; i < SAMPLES.size(); i++) {
            Sample sample = SAMPLES.get(i);
            if (isNull) {
                Checks.expect(sample.kind(), rows.getObject(i + 2), null);
            } else if (sample.value() instanceof byte[] bytes) {
                Checks.expect(sample.kind(), Arrays.equals(rows.getBytes(i + 2), bytes), true);
            } else {
                Checks.expect(sample.kind(), rows.getObject(i + 2, sample.value().getClass()), asSent(sample.value()));
            }
        }
    }

    /** The driver takes MariaDB ("5.5.5-...") for a server without fractions of a second. */
    private static Object asSent(Object value) {
        if (flavor.equals("mariadb") && value instanceof LocalDateTime time) {
            return time.withNano(0);
        }
        return flavor.equals("mariadb") && value instanceof LocalTime time ? time.withNano(0) : value;
    }

    private static void preparedAgain() throws Exception {
        try (Connection connection = Checks.connect("useServerPrepStmts", "true");
                PreparedStatement statement = connection.prepareStatement("SELECT ? IS NULL, LENGTH(CONCAT(?, ''))")) {
            for (int turn = 0; turn < 2; turn++) {
                for (Object value : new Object[] {1, "text 😀", null, 1.5, new byte[] {0, -1}, LocalDateTime.of(2024, 1, 2, 3, 4), "", true, Long.MIN_VALUE}) {
                    statement.setObject(1, value);
                    statement.setObject(2, value);
                    try (ResultSet rows = statement.executeQuery()) {
                        rows.next();
                        Checks.expect("IS NULL of " + value, rows.getBoolean(1), value == null);
                        if (value instanceof String text) {
                            Checks.expect("length", rows.getInt(2), text.getBytes("UTF-8").length);
                        }
                    }
                }
            }
        }
    }

    private static void preparedMany() throws Exception {
        try (Connection connection = Checks.connect("useServerPrepStmts", "true", "cachePrepStmts", "true", "prepStmtCacheSize", "50")) {
            List<PreparedStatement> open = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                open.add(connection.prepareStatement("SELECT " + i + " + ?"));
            }
            for (int i = 0; i < 300; i += 7) {
                open.get(i).close();
            }
            for (int i = 299; i >= 0; i--) {
                if (i % 7 != 0) {
                    open.get(i).setInt(1, 1);
                    try (ResultSet rows = open.get(i).executeQuery()) {
                        rows.next();
                        Checks.expect("sum", rows.getInt(1), i + 1);
                    }
                    open.get(i).close();
                }
            }
            Checks.expectError(() -> Checks.one(connection, "SELECT * FROM " + table("none") + " WHERE a = ?", 1), "42S02", 1146);
            Checks.expect("still usable", Checks.one(connection, "SELECT ?", "yes"), "yes");
        }
    }

    private static void insertIds(String binary) throws Exception {
        String name = table("ids_" + binary);
        try (Connection connection = Checks.connect("useServerPrepStmts", binary)) {
            Checks.execute(connection, "CREATE TABLE " + name + " (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + name + " (v) VALUES (?), (?), (?)", Statement.RETURN_GENERATED_KEYS)) {
                for (int i = 0; i < 3; i++) {
                    insert.setInt(i + 1, i);
                }
                Checks.expect("affected", insert.executeUpdate(), 3);
                List<Integer> keys = new ArrayList<>();
                try (ResultSet rows = insert.getGeneratedKeys()) {
                    while (rows.next()) {
                        keys.add(rows.getInt(1));
                    }
                }
                Checks.expect("generated keys", keys, List.of(1, 2, 3));
            }
            Checks.expect("LAST_INSERT_ID()", Checks.one(connection, "SELECT LAST_INSERT_ID()"), "1");
            Checks.expectError(() -> Checks.execute(connection, "INSERT INTO " + name + " (v) VALUES (?)", 1), "23000", 1062);
        } finally {
            Checks.drop(name);
        }
    }

    private static void batches(String binary) throws Exception {
        String name = table("batch_" + binary);
        try (Connection connection = Checks.connect("useServerPrepStmts", binary, "rewriteBatchedStatements", "true")) {
            Checks.execute(connection, "CREATE TABLE " + name + " (id INT PRIMARY KEY, v VARCHAR(100))");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + name + " VALUES (?, ?)")) {
                for (int i = 0; i < 5000; i++) {
                    insert.setInt(1, i);
                    insert.setString(2, "value " + i);
                    insert.addBatch();
                }
                Checks.expect("batch", insert.executeBatch().length, 5000);
            }
            try (PreparedStatement update = connection.prepareStatement("UPDATE " + name + " SET v = ? WHERE id = ?")) {
                for (int i = 0; i < 100; i++) {
                    update.setString(1, "changed");
                    update.setInt(2, i);
                    update.addBatch();
                }
                Checks.expect("batch", Arrays.stream(update.executeBatch()).sum(), 100);
            }
            Checks.expect("rows", Checks.one(connection, "SELECT COUNT(*) FROM " + name + " WHERE v <> 'changed' FOR UPDATE"), "4900");
        } finally {
            Checks.drop(name);
        }
    }

    private static void foundRows(String binary) throws Exception {
        String name = table("found_" + binary);
        try (Connection changed = Checks.connect("useServerPrepStmts", binary, "useAffectedRows", "true");
                Connection found = Checks.connect("useServerPrepStmts", binary)) {
            Checks.execute(changed, "CREATE TABLE " + name + " (v INT)");
            Checks.execute(changed, "INSERT INTO " + name + " VALUES (1), (1), (2)");
            for (int i = 0; i < 4; i++) {
                Checks.expect("changed", Checks.execute(changed, "UPDATE " + name + " SET v = 1 WHERE v = ?", 1), 0);
                Checks.expect("found", Checks.execute(found, "UPDATE " + name + " SET v = 1 WHERE v = ?", 1), 2);
            }
        } finally {
            Checks.drop(name);
        }
    }

    /** Asks again, each time in a new transaction, until the answer is the wanted one or time is up. */
    private static String whenReplicated(Connection connection, String sql, String wanted) throws Exception {
        long deadline = System.nanoTime() + 20_000_000_000L;
        while (true) {
            try {
                String got = Checks.one(connection, sql);
                if (got.equals(wanted) || System.nanoTime() > deadline) {
                    return got;
                }
            } catch (java.sql.SQLException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
            }
            connection.rollback();
            Thread.sleep(20);
        }
    }

    private static void transactions(String binary) throws Exception {
        String name = table("txn_" + binary);
        try (Connection connection = Checks.connect("useServerPrepStmts", binary)) {
            Checks.execute(connection, "CREATE TABLE " + name + " (v INT)");
            for (int level : new int[] {Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_READ_COMMITTED,
                Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE}) {
                connection.setTransactionIsolation(level);
                Checks.expect("isolation", connection.getTransactionIsolation(), level);
                connection.setAutoCommit(false);
                Checks.execute(connection, "INSERT INTO " + name + " VALUES (?)", level);
                java.sql.Savepoint point = connection.setSavepoint("point");
                Checks.execute(connection, "INSERT INTO " + name + " VALUES (?)", 1000);
                connection.rollback(point);
                Checks.expect("own row", Checks.one(connection, "SELECT COUNT(*) FROM " + name + " WHERE v = ?", level), "1");
                if (level == Connection.TRANSACTION_READ_COMMITTED) {
                    connection.rollback();
                } else {
                    connection.commit();
                }
                connection.setAutoCommit(true);
            }
            connection.setReadOnly(true);
            connection.setAutoCommit(false);
            // It runs on a replica, which may not have come so far.
            Checks.expect("committed", whenReplicated(connection, "SELECT COUNT(*) FROM " + name, "3"), "3");
            Checks.expectError(() -> Checks.execute(connection, "INSERT INTO " + name + " VALUES (1)"), null, 0, 1792);
            connection.rollback();
            connection.setAutoCommit(true);
            connection.setReadOnly(false);
            Checks.execute(connection, "INSERT INTO " + name + " VALUES (1)");
        } finally {
            Checks.drop(name);
        }
    }

    private static byte[] noise(int size) {
        byte[] data = new byte[size];
        new Random(size).nextBytes(data);
        return data;
    }

    private static void bigValues(String binary, int size) throws Exception {
        byte[] data = noise(size);
        String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
        try (Connection connection = Checks.connect("useServerPrepStmts", binary)) {
            Checks.expect("digest", Checks.one(connection, "SELECT SHA2(?, 256)", (Object) data), digest);
            // A stream goes to the server as COM_STMT_SEND_LONG_DATA when the statement is prepared there.
            Checks.expect("digest of a stream", Checks.one(connection, "SELECT SHA2(?, 256)", new ByteArrayInputStream(data)), digest);
            try (PreparedStatement select = connection.prepareStatement("SELECT CAST(? AS BINARY), 7")) {
                select.setBytes(1, data);
                try (ResultSet rows = select.executeQuery()) {
                    rows.next();
                    Checks.expect("the echo is the same", Arrays.equals(rows.getBytes(1), data), true);
                    Checks.expect("the column after", rows.getInt(2), 7);
                }
            }
            String text = Checks.one(connection, "SELECT REPEAT('ab', ?)", size / 2);
            Checks.expect("the big text is the same", text.equals("ab".repeat(size / 2)), true);
        }
    }

    private static String many() {
        StringBuilder ten = new StringBuilder("(SELECT 0 AS d");
        for (int i = 1; i < 10; i++) {
            ten.append(" UNION ALL SELECT ").append(i);
        }
        ten.append(")");
        return "SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d, REPEAT('x', 50) FROM "
            + ten + " a, " + ten + " b, " + ten + " c, " + ten + " e, " + ten + " f";
    }

    private static void stream(String binary) throws Exception {
        try (Connection connection = Checks.connect("useServerPrepStmts", binary)) {
            try (PreparedStatement select = connection.prepareStatement(many())) {
                select.setFetchSize(Integer.MIN_VALUE); // row by row, unbuffered
                expectMany(select.executeQuery());
                select.setFetchSize(0);
                expectMany(select.executeQuery());
            }
        }
    }

    private static void expectMany(ResultSet rows) throws SQLException {
        long count = 0;
        long sum = 0;
        while (rows.next()) {
            count++;
            sum += rows.getLong(1);
        }
        rows.close();
        Checks.expect("rows and sum", List.of(count, sum), List.of(100_000L, 4_999_950_000L));
    }

    private static void cursorFetch() throws Exception {
        try (Connection connection = Checks.connect("useServerPrepStmts", "true", "useCursorFetch", "true", "defaultFetchSize", "1000")) {
            try (PreparedStatement select = connection.prepareStatement(many())) {
                expectMany(select.executeQuery());
            }
            try (PreparedStatement select = connection.prepareStatement(many()); ResultSet rows = select.executeQuery()) {
                // An open cursor and other statements in between.
                for (int i = 0; i < 2500; i++) {
                    rows.next();
                }
                Checks.expect("another statement", Checks.one(connection, "SELECT ?", 5), "5");
                long count = 2500;
                while (rows.next()) {
                    count++;
                }
                Checks.expect("rows", count, 100_000L);
            }
            Checks.expect("usable", Checks.one(connection, "SELECT 1"), "1");
        }
    }

    private static void multiStatements() throws Exception {
        try (Connection connection = Checks.connect("allowMultiQueries", "true"); Statement statement = connection.createStatement()) {
            List<String> got = new ArrayList<>();
            boolean hasRows = statement.execute("SELECT 1; SET @m = 2; SELECT @m, ';'");
            while (hasRows || statement.getUpdateCount() != -1) {
                if (hasRows) {
                    try (ResultSet rows = statement.getResultSet()) {
                        rows.next();
                        got.add(rows.getString(1));
                    }
                } else {
                    got.add("update");
                }
                hasRows = statement.getMoreResults();
            }
            Checks.expect("results", got, List.of("1", "update", "2"));
            Checks.expectError(() -> {
                statement.execute("SELECT 1; SELEC 2"); // which of the two calls fails is the driver's business
                statement.getMoreResults();
            }, "42000", 1064);
            Checks.expect("usable", Checks.one(connection, "SELECT 1"), "1");
        }
        try (Connection connection = Checks.connect(); Statement statement = connection.createStatement()) {
            Checks.expectError(() -> statement.execute("SELECT 1; SELECT 2"), "42000", 1064);
        }
    }

    private static void procedure() throws Exception {
        String name = table("proc");
        try (Connection connection = Checks.connect("useServerPrepStmts", "true")) {
            Checks.execute(connection, "CREATE PROCEDURE " + name + "(IN n INT, OUT o INT, INOUT io INT) BEGIN SELECT n; SET o = n * 2; SET io = io + n; SELECT n + 1; END");
            // The driver asks for the parameters by a plain read, which may find a replica that does not know them yet.
            connection.setAutoCommit(false);
            try (CallableStatement call = connection.prepareCall("{CALL " + name + "(?, ?, ?)}")) {
                call.setInt(1, 5);
                call.registerOutParameter(2, Types.INTEGER);
                call.setInt(3, 100);
                call.registerOutParameter(3, Types.INTEGER);
                List<Integer> got = new ArrayList<>();
                for (boolean more = call.execute(); more; more = call.getMoreResults()) {
                    try (ResultSet rows = call.getResultSet()) {
                        rows.next();
                        got.add(rows.getInt(1));
                    }
                }
                got.add(call.getInt(2));
                got.add(call.getInt(3));
                Checks.expect("results and OUT parameters", got, List.of(5, 6, 10, 105));
                call.close();
                connection.commit();
                connection.setAutoCommit(true);
            } finally {
                Checks.execute(connection, "DROP PROCEDURE IF EXISTS " + name);
            }
        }
    }

    private static void loadData() throws Exception {
        String name = table("load");
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < 50_000; i++) {
            lines.append(i).append("\tvalue ").append(i).append('\n');
        }
        try (Connection connection = Checks.connect("allowLoadLocalInfile", "true"); Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE " + name + " (id INT, v VARCHAR(100))");
            ((JdbcStatement) statement).setLocalInfileInputStream(new ByteArrayInputStream(lines.toString().getBytes("UTF-8")));
            Checks.expect("loaded", statement.executeUpdate("LOAD DATA LOCAL INFILE 'lines' INTO TABLE " + name), 50_000);
            Checks.expect("rows", Checks.one(connection, "SELECT COUNT(*) FROM " + name + " FOR UPDATE"), "50000");
        } finally {
            Checks.drop(name);
        }
    }

    private static void pingResetChangeUser() throws Exception {
        try (Connection connection = Checks.connect()) {
            JdbcConnection own = connection.unwrap(JdbcConnection.class);
            own.ping();
            Checks.execute(connection, "SET @kept = 5");
            Checks.execute(connection, "CREATE TEMPORARY TABLE temporary_thing (v INT)");
            own.resetServerState();
            Checks.expect("variable", Checks.one(connection, "SELECT @kept"), null);
            Checks.expectError(() -> Checks.one(connection, "SELECT * FROM temporary_thing"), "42S02", 1146);
            Checks.execute(connection, "SET @kept = 6");
            own.changeUser(Checks.env("USER"), Checks.env("PASSWORD"));
            Checks.expect("variable", Checks.one(connection, "SELECT @kept"), null);
            Checks.expect("user", Checks.one(connection, "SELECT CURRENT_USER()").split("@")[0], Checks.env("USER"));
            connection.setCatalog("information_schema");
            Checks.expect("schema", Checks.one(connection, "SELECT DATABASE()"), "information_schema");
        }
    }

    /** The driver opens a second connection and sends KILL QUERY for the first one's id. */
    private static void queryTimeout() throws Exception {
        try (Connection connection = Checks.connect(); Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            long begun = System.nanoTime();
            // SLEEP returns 1 and no error where it is killed; a write fails with 1317.
            try {
                statement.execute("SELECT SLEEP(20)");
            } catch (SQLException error) {
                Checks.expect("a time-out", error instanceof java.sql.SQLTimeoutException || error.getErrorCode() == 1317, true);
            }
            Checks.expect("ended early", System.nanoTime() - begun < 15_000_000_000L, true);
            Checks.expect("usable", Checks.one(connection, "SELECT 1"), "1");
        }
    }

    private static void metadata() throws Exception {
        String name = table("meta");
        try (Connection connection = Checks.connect()) {
            Checks.execute(connection, "CREATE TABLE " + name + " (id INT PRIMARY KEY, v VARCHAR(20) NOT NULL)");
            connection.setAutoCommit(false);
            List<String> columns = new ArrayList<>();
            try (ResultSet rows = connection.getMetaData().getColumns(Checks.env("DATABASE"), null, name, "%")) {
                while (rows.next()) {
                    columns.add(rows.getString("COLUMN_NAME"));
                }
            }
            connection.commit();
            Checks.expect("columns", columns, List.of("id", "v"));
        } finally {
            Checks.drop(name);
        }
    }

    private static void transfers(String binary) throws Exception {
        String name = table("accounts_" + binary);
        BlockingQueue<Connection> idle = new ArrayBlockingQueue<>(15);
        ExecutorService workers = Executors.newFixedThreadPool(20);
        try (Connection admin = Checks.connect()) {
            Checks.execute(admin, "CREATE TABLE " + name + " (id INT PRIMARY KEY, balance INT NOT NULL)");
            for (int account = 1; account <= 10; account++) {
                Checks.execute(admin, "INSERT INTO " + name + " VALUES (?, 100)", account);
            }
            for (int i = 0; i < 15; i++) {
                Connection connection = Checks.connect("useServerPrepStmts", binary);
                connection.setAutoCommit(false);
                idle.add(connection);
            }
            List<Future<?>> done = new ArrayList<>();
            for (int worker = 0; worker < 20; worker++) {
                Random dice = new Random(worker);
                done.add(workers.submit(() -> work(idle, name, dice)));
            }
            for (Future<?> one : done) {
                one.get();
            }
            admin.setAutoCommit(false);
            Checks.expect("sum of balances", Checks.one(admin, "SELECT SUM(balance) FROM " + name), "1000");
            admin.commit();
        } finally {
            workers.shutdownNow();
            for (Connection connection : idle) {
                connection.close();
            }
            Checks.drop(name);
        }
    }

    private static Void work(BlockingQueue<Connection> idle, String name, Random dice) throws Exception {
        for (int turn = 0; turn < 20; turn++) {
            int from = 1 + dice.nextInt(10);
            int to = 1 + (from + dice.nextInt(9)) % 10;
            Connection connection = idle.take();
            try {
                while (!transfer(connection, name, from, to)) {
                    Thread.onSpinWait();
                }
            } finally {
                idle.add(connection);
            }
        }
        return null;
    }

    private static boolean transfer(Connection connection, String name, int from, int to) throws SQLException {
        try {
            int balance = Integer.parseInt(Checks.one(connection, "SELECT balance FROM " + name + " WHERE id = ? FOR UPDATE", from));
            Checks.execute(connection, "UPDATE " + name + " SET balance = ? WHERE id = ?", balance - 3, from);
            Checks.execute(connection, "UPDATE " + name + " SET balance = balance + 3 WHERE id = ?", to);
            connection.commit();
            return true;
        } catch (SQLException error) {
            connection.rollback();
            if (error.getErrorCode() == 1213) {
                return false;
            }
            throw error;
        }
    }
}
