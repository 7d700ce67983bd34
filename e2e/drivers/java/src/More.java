import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Blob;
import java.sql.CallableStatement;
import java.sql.Clob;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Calendar;
import java.util.List;
import java.util.TimeZone;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;

/**
 * More of Connector/J, where its own tests are not to be had: what programs do with JDBC.
 * Runs only where a read sees every write before it, that is, without replicas.
 */
final class More {
    private interface Work { void run(Connection connection, String table) throws Exception; }

    private More() { }

    private static Connection connect(boolean binary, String... changes) throws SQLException {
        String[] all = Arrays.copyOf(changes, changes.length + 2);
        all[changes.length] = "useServerPrepStmts";
        all[changes.length + 1] = String.valueOf(binary);
        return Checks.connect(all);
    }

    private static void with(boolean binary, String columns, Work work, String... changes) throws Exception {
        String name = Checks.PREFIX + "_more";
        try (Connection connection = connect(binary, changes)) {
            Checks.execute(connection, "DROP TABLE IF EXISTS " + name);
            Checks.execute(connection, "CREATE TABLE " + name + " (" + columns + ")");
            try {
                work.run(connection, name);
            } finally {
                if (!connection.isClosed()) {
                    connection.setAutoCommit(true);
                }
                Checks.drop(name);
            }
        }
    }

    private static List<String> column(Connection connection, String sql, Object... values) throws SQLException {
        List<String> got = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    got.add(rows.getString(1));
                }
            }
        }
        return got;
    }

    static void run() {
        for (boolean binary : new boolean[] {false, true}) {
            String kind = binary ? "_prepared" : "_text";
            Checks.check("more_generated_keys" + kind, () -> generatedKeys(binary));
            Checks.check("more_rewritten_batches" + kind, () -> rewrittenBatches(binary));
            Checks.check("more_failing_batches" + kind, () -> failingBatches(binary));
            Checks.check("more_lobs" + kind, () -> lobs(binary));
            Checks.check("more_streamed_parameters" + kind, () -> streamedParameters(binary));
            Checks.check("more_dates" + kind, () -> dates(binary));
            Checks.check("more_calendars" + kind, () -> calendars(binary));
            Checks.check("more_savepoints" + kind, () -> savepoints(binary));
            Checks.check("more_isolation" + kind, () -> isolation(binary));
            Checks.check("more_read_only" + kind, () -> readOnly(binary));
            Checks.check("more_updatable_rows" + kind, () -> updatableRows(binary));
            Checks.check("more_scrolling" + kind, () -> scrolling(binary));
            Checks.check("more_limits" + kind, () -> limits(binary));
            Checks.check("more_row_by_row" + kind, () -> rowByRow(binary));
            Checks.check("more_columns" + kind, () -> columns(binary));
            Checks.check("more_numbers" + kind, () -> numbers(binary));
            Checks.check("more_charsets" + kind, () -> charsets(binary));
            Checks.check("more_multi_queries" + kind, () -> multiQueries(binary));
            Checks.check("more_functions_called" + kind, () -> functionsCalled(binary));
            Checks.check("more_errors" + kind, () -> errors(binary));
            Checks.check("more_lock_wait_timeout" + kind, () -> lockWait(binary));
            Checks.check("more_temporary_tables" + kind, () -> temporaryTables(binary));
            Checks.check("more_variables" + kind, () -> variables(binary));
            Checks.check("more_session_variables_at_login" + kind, () -> sessionVariables(binary));
            Checks.check("more_cached_statements" + kind, () -> cachedStatements(binary));
            Checks.check("more_statements_after_ddl" + kind, () -> afterDdl(binary));
            Checks.check("more_time_limits" + kind, () -> timeLimits(binary));
            Checks.check("more_cancel" + kind, () -> cancel(binary));
        }
        Checks.check("more_cursor_in_transaction", More::cursors);
        Checks.check("more_tables_of_metadata", More::tables);
        Checks.check("more_keys_of_metadata", More::keys);
        Checks.check("more_procedures_of_metadata", More::procedures);
        Checks.check("more_valid_and_abort", More::validAndAbort);
        Checks.check("more_network_timeout", More::networkTimeout);
        Checks.check("more_schemas", More::schemas);
        Checks.check("more_many_connections", More::manyConnections);
        Checks.check("more_process_list", More::processList);
    }

    private static void generatedKeys(boolean binary) throws Exception {
        with(binary, "id INT AUTO_INCREMENT PRIMARY KEY, v INT", (connection, table) -> {
            String sql = "INSERT INTO " + table + " (v) VALUES (?), (?), (?)";
            try (PreparedStatement insert = connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
                for (int turn = 0; turn < 2; turn++) {
                    for (int i = 1; i <= 3; i++) {
                        insert.setInt(i, i);
                    }
                    Checks.expect("rows", insert.executeUpdate(), 3);
                    List<Integer> keys = new ArrayList<>();
                    try (ResultSet rows = insert.getGeneratedKeys()) {
                        while (rows.next()) {
                            keys.add(rows.getInt(1));
                        }
                    }
                    Checks.expect("keys", keys, List.of(1 + 3 * turn, 2 + 3 * turn, 3 + 3 * turn));
                }
            }
        });
    }

    private static void rewrittenBatches(boolean binary) throws Exception {
        with(binary, "id INT PRIMARY KEY, v VARCHAR(30)", (connection, table) -> {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?, ?)")) {
                for (int i = 0; i < 2500; i++) {
                    insert.setInt(1, i);
                    insert.setString(2, "value " + i);
                    insert.addBatch();
                }
                Checks.expect("counts", insert.executeBatch().length, 2500);
            }
            Checks.expect("sum", column(connection, "SELECT SUM(id) FROM " + table), List.of("3123750"));
            try (PreparedStatement update = connection.prepareStatement("UPDATE " + table + " SET v = ? WHERE id = ?")) {
                for (int i = 0; i < 200; i++) {
                    update.setString(1, "new");
                    update.setInt(2, i);
                    update.addBatch();
                }
                update.executeBatch();
            }
            Checks.expect("updated", column(connection, "SELECT COUNT(*) FROM " + table + " WHERE v = 'new'"), List.of("200"));
        }, "rewriteBatchedStatements", "true");
    }

    private static void failingBatches(boolean binary) throws Exception {
        with(binary, "id INT PRIMARY KEY", (connection, table) -> {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?)")) {
                for (int id : new int[] {1, 2, 1, 3}) {
                    insert.setInt(1, id);
                    insert.addBatch();
                }
                try {
                    insert.executeBatch();
                    throw new AssertionError("a batch with a duplicate did not fail");
                } catch (BatchUpdateException error) {
                    Checks.expect("number", error.getErrorCode(), 1062);
                    Checks.expect("counts", error.getUpdateCounts()[2], Statement.EXECUTE_FAILED);
                }
            }
            Checks.expect("rows", column(connection, "SELECT id FROM " + table + " ORDER BY id"), List.of("1", "2", "3"));
        });
    }

    private static void lobs(boolean binary) throws Exception {
        byte[] bytes = new byte[700_000];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (i * 7);
        }
        String text = "naïve 😀 ".repeat(50_000);
        with(binary, "id INT, b LONGBLOB, t LONGTEXT", (connection, table) -> {
            Blob blob = connection.createBlob();
            blob.setBytes(1, bytes);
            Clob clob = connection.createClob();
            clob.setString(1, text);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (1, ?, ?)")) {
                insert.setBlob(1, blob);
                if (binary) {
                    // The driver cuts a Clob of other than Latin letters short there.
                    insert.setString(2, text);
                } else {
                    insert.setClob(2, clob);
                }
                insert.executeUpdate();
            }
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT b, t FROM " + table)) {
                rows.next();
                Checks.expect("blob", Arrays.equals(rows.getBlob(1).getBytes(1, bytes.length), bytes), true);
                Checks.expect("clob", rows.getClob(2).getSubString(1, text.length()).equals(text), true);
                Checks.expect("stream", Arrays.equals(rows.getBinaryStream(1).readAllBytes(), bytes), true);
            }
        });
    }

    private static void streamedParameters(boolean binary) throws Exception {
        byte[] bytes = new byte[3_000_000];
        Arrays.fill(bytes, (byte) 'z');
        with(binary, "id INT, b LONGBLOB, t LONGTEXT", (connection, table) -> {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?, ?, ?)")) {
                for (int turn = 0; turn < 3; turn++) {
                    insert.setInt(1, turn);
                    insert.setBinaryStream(2, new ByteArrayInputStream(bytes), bytes.length);
                    insert.setCharacterStream(3, new StringReader("é".repeat(100_000)), 100_000);
                    Checks.expect("inserted", insert.executeUpdate(), 1);
                }
            }
            Checks.expect("lengths", column(connection, "SELECT CONCAT(LENGTH(b), ' ', CHAR_LENGTH(t)) FROM " + table),
                List.of("3000000 100000", "3000000 100000", "3000000 100000"));
        });
    }

    private static void dates(boolean binary) throws Exception {
        with(binary, "d DATE, t DATETIME(6), h TIME(6), s TIMESTAMP(6) NULL", (connection, table) -> {
            LocalDateTime moment = LocalDateTime.of(2024, 2, 29, 23, 59, 58);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?, ?, ?, ?)")) {
                insert.setObject(1, LocalDate.of(1999, 12, 31));
                insert.setObject(2, moment);
                insert.setObject(3, LocalTime.of(1, 2, 3));
                insert.setTimestamp(4, Timestamp.valueOf(moment));
                insert.executeUpdate();
            }
            try (PreparedStatement select = connection.prepareStatement("SELECT * FROM " + table); ResultSet rows = select.executeQuery()) {
                rows.next();
                Checks.expect("date", rows.getObject(1, LocalDate.class), LocalDate.of(1999, 12, 31));
                Checks.expect("datetime", rows.getObject(2, LocalDateTime.class), moment);
                Checks.expect("time", rows.getObject(3, LocalTime.class), LocalTime.of(1, 2, 3));
                Checks.expect("timestamp", rows.getTimestamp(4), Timestamp.valueOf(moment));
            }
        });
    }

    private static void calendars(boolean binary) throws Exception {
        with(binary, "t DATETIME", (connection, table) -> {
            Calendar tokyo = Calendar.getInstance(TimeZone.getTimeZone("Asia/Tokyo"));
            Timestamp moment = new Timestamp(1_700_000_000_000L);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?)")) {
                insert.setTimestamp(1, moment, tokyo);
                insert.executeUpdate();
            }
            Checks.expect("as text", column(connection, "SELECT CAST(t AS CHAR) FROM " + table), List.of("2023-11-15 07:13:20"));
            try (PreparedStatement select = connection.prepareStatement("SELECT t FROM " + table); ResultSet rows = select.executeQuery()) {
                rows.next();
                Checks.expect("back", rows.getTimestamp(1, tokyo), moment);
            }
        });
    }

    private static void savepoints(boolean binary) throws Exception {
        with(binary, "v INT", (connection, table) -> {
            connection.setAutoCommit(false);
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (?)", 1);
            Savepoint named = connection.setSavepoint("here");
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (?)", 2);
            Savepoint unnamed = connection.setSavepoint();
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (?)", 3);
            connection.rollback(unnamed);
            connection.releaseSavepoint(unnamed);
            Checks.expect("two", column(connection, "SELECT v FROM " + table + " ORDER BY v"), List.of("1", "2"));
            connection.rollback(named);
            connection.commit();
            Checks.expect("one", column(connection, "SELECT v FROM " + table), List.of("1"));
        });
    }

    private static void isolation(boolean binary) throws Exception {
        int[] levels = {Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_READ_COMMITTED,
            Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE};
        with(binary, "v INT", (connection, table) -> {
            for (int level : levels) {
                connection.setTransactionIsolation(level);
                Checks.expect("level", connection.getTransactionIsolation(), level);
                Checks.execute(connection, "INSERT INTO " + table + " VALUES (?)", level);
            }
            Checks.expect("rows", column(connection, "SELECT COUNT(*) FROM " + table), List.of("4"));
        });
    }

    private static void readOnly(boolean binary) throws Exception {
        with(binary, "v INT", (connection, table) -> {
            for (int turn = 0; turn < 3; turn++) {
                connection.setReadOnly(true);
                Checks.expect("read-only", connection.isReadOnly(), true);
                Checks.expect("count", column(connection, "SELECT COUNT(*) FROM " + table), List.of(String.valueOf(turn)));
                connection.setReadOnly(false);
                Checks.execute(connection, "INSERT INTO " + table + " VALUES (?)", turn);
            }
            connection.setReadOnly(true);
            // The driver itself refuses some; the server the others.
            boolean refused = false;
            try (Statement statement = connection.createStatement()) {
                statement.execute("/* hidden */ INSERT INTO " + table + " VALUES (9)");
            } catch (SQLException error) {
                refused = true;
            }
            connection.setReadOnly(false);
            Checks.expect("refused", refused, true);
        });
    }

    private static void updatableRows(boolean binary) throws Exception {
        with(binary, "id INT PRIMARY KEY, v VARCHAR(20)", (connection, table) -> {
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (1, 'a'), (2, 'b'), (3, 'c')");
            try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_SENSITIVE, ResultSet.CONCUR_UPDATABLE);
                    ResultSet rows = statement.executeQuery("SELECT id, v FROM " + table + " ORDER BY id")) {
                rows.next();
                rows.updateString("v", "changed");
                rows.updateRow();
                rows.next();
                rows.deleteRow();
                rows.moveToInsertRow();
                rows.updateInt(1, 9);
                rows.updateString(2, "new");
                rows.insertRow();
            }
            Checks.expect("rows", column(connection, "SELECT CONCAT(id, v) FROM " + table + " ORDER BY id"), List.of("1changed", "3c", "9new"));
        });
    }

    private static void scrolling(boolean binary) throws Exception {
        with(binary, "id INT PRIMARY KEY", (connection, table) -> {
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (1), (2), (3), (4)");
            try (PreparedStatement select = connection.prepareStatement("SELECT id FROM " + table + " ORDER BY id",
                    ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY); ResultSet rows = select.executeQuery()) {
                rows.last();
                Checks.expect("last", rows.getInt(1), 4);
                rows.absolute(2);
                rows.relative(-1);
                Checks.expect("first", rows.getInt(1), 1);
                rows.beforeFirst();
                Checks.expect("next", rows.next() && rows.getInt(1) == 1, true);
            }
        });
    }

    private static void limits(boolean binary) throws Exception {
        with(binary, "id INT PRIMARY KEY", (connection, table) -> {
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (1), (2), (3), (4)");
            for (int limit : new int[] {2, 0, 3}) {
                try (PreparedStatement select = connection.prepareStatement("SELECT id FROM " + table)) {
                    select.setMaxRows(limit);
                    int count = 0;
                    try (ResultSet rows = select.executeQuery()) {
                        while (rows.next()) {
                            count++;
                        }
                    }
                    Checks.expect("rows of at most " + limit, count, limit == 0 ? 4 : limit);
                }
                Checks.expect("without a limit", column(connection, "SELECT id FROM " + table).size(), 4);
            }
        });
    }

    private static final String NUMBERS = "WITH RECURSIVE n (v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 900) SELECT v, REPEAT('x', 3000) AS p FROM n";

    private static void rowByRow(boolean binary) throws Exception {
        try (Connection connection = connect(binary)) {
            try (PreparedStatement select = connection.prepareStatement(NUMBERS, ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                select.setFetchSize(Integer.MIN_VALUE);
                long sum = 0;
                try (ResultSet rows = select.executeQuery()) {
                    while (rows.next()) {
                        sum += rows.getInt(1);
                    }
                }
                Checks.expect("sum", sum, 405_450L);
                // One that is left in the middle is read to its end by the driver.
                try (ResultSet rows = select.executeQuery()) {
                    rows.next();
                }
            }
            Checks.expect("usable", column(connection, "SELECT 1"), List.of("1"));
        }
    }

    private static void cursors() throws Exception {
        try (Connection connection = connect(true, "useCursorFetch", "true", "defaultFetchSize", "50")) {
            connection.setAutoCommit(false);
            try (PreparedStatement first = connection.prepareStatement(NUMBERS); PreparedStatement second = connection.prepareStatement(NUMBERS);
                    ResultSet a = first.executeQuery(); ResultSet b = second.executeQuery()) {
                long sum = 0;
                while (a.next() && b.next()) {
                    sum += a.getInt(1) + b.getInt(1);
                    if (a.getInt(1) % 100 == 0) {
                        Checks.expect("between", column(connection, "SELECT 5"), List.of("5"));
                    }
                }
                Checks.expect("sum of both", sum, 810_900L);
            }
            connection.commit();
        }
    }

    private static void columns(boolean binary) throws Exception {
        with(binary, "id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20) NOT NULL, d DECIMAL(12, 3), b BIT(1)", (connection, table) -> {
            try (PreparedStatement select = connection.prepareStatement("SELECT id AS n, v, d, b FROM " + table + " WHERE id > ?")) {
                ParameterMetaData parameters = select.getParameterMetaData();
                Checks.expect("parameters", parameters.getParameterCount(), 1);
                select.setInt(1, 0);
                try (ResultSet rows = select.executeQuery()) {
                    ResultSetMetaData columns = rows.getMetaData();
                    Checks.expect("label and name", List.of(columns.getColumnLabel(1), columns.getColumnName(1), columns.getTableName(1)), List.of("n", "id", table));
                    Checks.expect("type", List.of(columns.getColumnType(2), columns.getColumnType(3), columns.getColumnType(4)), List.of(Types.VARCHAR, Types.DECIMAL, Types.BIT));
                    Checks.expect("flags", List.of(columns.isAutoIncrement(1), columns.isSigned(1), columns.isNullable(2)), List.of(true, false, ResultSetMetaData.columnNoNulls));
                    Checks.expect("sizes", List.of(columns.getPrecision(3), columns.getScale(3), columns.getColumnDisplaySize(2)), List.of(12, 3, 20));
                }
            }
        });
    }

    private static void numbers(boolean binary) throws Exception {
        with(binary, "a BIGINT UNSIGNED, b DECIMAL(40, 20), c DOUBLE, d FLOAT, e TINYINT(1), f YEAR", (connection, table) -> {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?, ?, ?, ?, ?, ?)")) {
                insert.setString(1, "18446744073709551615");
                insert.setBigDecimal(2, new BigDecimal("-12345678901234567890.12345678901234567890"));
                insert.setDouble(3, -2.25e300);
                insert.setFloat(4, 0.5f);
                insert.setBoolean(5, true);
                insert.setInt(6, 2024);
                insert.executeUpdate();
            }
            try (PreparedStatement select = connection.prepareStatement("SELECT * FROM " + table); ResultSet rows = select.executeQuery()) {
                rows.next();
                Checks.expect("unsigned", rows.getBigDecimal(1), new BigDecimal("18446744073709551615"));
                Checks.expect("decimal", rows.getBigDecimal(2), new BigDecimal("-12345678901234567890.12345678901234567890"));
                Checks.expect("others", List.of(rows.getDouble(3), rows.getFloat(4), rows.getBoolean(5), rows.getInt(6)), List.of(-2.25e300, 0.5f, true, 2024));
            }
        });
    }

    private static void charsets(boolean binary) throws Exception {
        for (String encoding : List.of("UTF-8", "ISO-8859-1", "windows-1251")) {
            String wanted = encoding.equals("windows-1251") ? "Привет" : "naïve é";
            try (Connection connection = connect(binary, "characterEncoding", encoding)) {
                Checks.expect(encoding, column(connection, "SELECT ?", wanted), List.of(wanted));
            }
        }
        try (Connection connection = connect(binary, "connectionCollation", "utf8mb4_bin")) {
            Checks.expect("collation", column(connection, "SELECT 'a' = 'A'"), List.of("0"));
        }
    }

    private static void multiQueries(boolean binary) throws Exception {
        try (Connection connection = connect(binary, "allowMultiQueries", "true"); Statement statement = connection.createStatement()) {
            List<String> got = new ArrayList<>();
            boolean isRows = statement.execute("SELECT 1; SET @a = 5; SELECT @a UNION ALL SELECT 6; DO 1; SELECT 'end'");
            while (isRows || statement.getUpdateCount() != -1) {
                if (isRows) {
                    try (ResultSet rows = statement.getResultSet()) {
                        while (rows.next()) {
                            got.add(rows.getString(1));
                        }
                    }
                }
                isRows = statement.getMoreResults();
            }
            Checks.expect("all", got, List.of("1", "5", "6", "end"));
        }
    }

    private static void functionsCalled(boolean binary) throws Exception {
        String name = Checks.PREFIX + "_f";
        try (Connection connection = connect(binary)) {
            Checks.execute(connection, "CREATE FUNCTION " + name + "(a INT, b VARCHAR(20)) RETURNS VARCHAR(40) DETERMINISTIC NO SQL RETURN CONCAT(a * 2, b)");
            try (CallableStatement call = connection.prepareCall("{? = CALL " + name + "(?, ?)}")) {
                for (int turn = 0; turn < 3; turn++) {
                    call.registerOutParameter(1, Types.VARCHAR);
                    call.setInt(2, turn);
                    call.setString(3, "é");
                    call.execute();
                    Checks.expect("result", call.getString(1), turn * 2 + "é");
                }
            } finally {
                Checks.execute(connection, "DROP FUNCTION " + name);
            }
        }
    }

    private static void errors(boolean binary) throws Exception {
        with(binary, "id INT PRIMARY KEY, v INT NOT NULL", (connection, table) -> {
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (1, 1)");
            for (int turn = 0; turn < 2; turn++) {
                Checks.expectError(() -> Checks.execute(connection, "INSERT INTO " + table + " VALUES (?, 1)", 1), "23000", 1062);
                Checks.expectError(() -> Checks.one(connection, "SELECT nothing FROM " + table), "42S22", 1054);
                Checks.expectError(() -> Checks.execute(connection, "UPDAT nothing"), "42000", 1064);
                Checks.expectError(() -> Checks.one(connection, "SELECT * FROM nothing_here"), "42S02", 1146);
            }
            Checks.expect("usable", column(connection, "SELECT COUNT(*) FROM " + table), List.of("1"));
        });
    }

    private static void lockWait(boolean binary) throws Exception {
        with(binary, "id INT PRIMARY KEY, v INT", (first, table) -> {
            Checks.execute(first, "INSERT INTO " + table + " VALUES (1, 1)");
            try (Connection second = connect(binary, "sessionVariables", "innodb_lock_wait_timeout=1")) {
                first.setAutoCommit(false);
                Checks.execute(first, "UPDATE " + table + " SET v = 2");
                Checks.expectError(() -> Checks.execute(second, "UPDATE " + table + " SET v = 3"), null, 1205);
                first.rollback();
                Checks.expect("after it", Checks.execute(second, "UPDATE " + table + " SET v = 3"), 1);
            }
        });
    }

    private static void temporaryTables(boolean binary) throws Exception {
        try (Connection connection = connect(binary); Connection other = connect(binary)) {
            Checks.execute(connection, "CREATE TEMPORARY TABLE only_mine (v INT)");
            Checks.execute(connection, "INSERT INTO only_mine VALUES (?)", 5);
            Checks.expect("mine", column(connection, "SELECT v FROM only_mine"), List.of("5"));
            Checks.expectError(() -> Checks.one(other, "SELECT v FROM only_mine"), "42S02", 1146);
            Checks.execute(connection, "DROP TEMPORARY TABLE only_mine");
            Checks.expectError(() -> Checks.one(connection, "SELECT v FROM only_mine"), "42S02", 1146);
        }
    }

    private static void variables(boolean binary) throws Exception {
        List<Connection> all = new ArrayList<>();
        try {
            for (int i = 0; i < 12; i++) {
                Connection connection = connect(binary);
                all.add(connection);
                Checks.execute(connection, "SET @mine = ?, @text = 'é'", i);
            }
            for (int turn = 0; turn < 3; turn++) {
                for (int i = 0; i < all.size(); i++) {
                    Checks.expect("variables", column(all.get(i), "SELECT CONCAT(@mine, @text)"), List.of(i + "é"));
                }
            }
        } finally {
            for (Connection connection : all) {
                connection.close();
            }
        }
    }

    private static void sessionVariables(boolean binary) throws Exception {
        try (Connection connection = connect(binary, "sessionVariables", "group_concat_max_len=5,sql_mode='ANSI_QUOTES'")) {
            Checks.expect("both", column(connection, "SELECT GROUP_CONCAT(\"v\") FROM (SELECT '0123456789' AS v) t"), List.of("01234"));
        }
    }

    private static void cachedStatements(boolean binary) throws Exception {
        try (Connection connection = connect(binary, "cachePrepStmts", "true", "prepStmtCacheSize", "20")) {
            for (int turn = 0; turn < 3; turn++) {
                for (int i = 0; i < 60; i++) {
                    Checks.expect("sum", column(connection, "SELECT " + i + " + ?", turn).get(0).split("\\.")[0], String.valueOf(i + turn));
                }
            }
        }
    }

    private static void afterDdl(boolean binary) throws Exception {
        with(binary, "a INT", (connection, table) -> {
            Checks.execute(connection, "INSERT INTO " + table + " VALUES (1)");
            for (int columns = 1; columns <= 3; columns++) {
                // The driver keeps the columns of what it has prepared.
                try (PreparedStatement select = connection.prepareStatement("SELECT * FROM " + table)) {
                    try (ResultSet rows = select.executeQuery()) {
                        rows.next();
                        Checks.expect("columns", rows.getMetaData().getColumnCount(), columns);
                        Checks.expect("value", rows.getInt(columns), columns);
                    }
                }
                Checks.execute(connection, "ALTER TABLE " + table + " ADD COLUMN c" + columns + " INT DEFAULT " + (columns + 1));
            }
        });
    }

    private static void timeLimits(boolean binary) throws Exception {
        try (Connection connection = connect(binary); PreparedStatement select = connection.prepareStatement("SELECT SLEEP(?)")) {
            select.setQueryTimeout(1);
            select.setInt(1, 20);
            long begun = System.nanoTime();
            try (ResultSet rows = select.executeQuery()) {
                rows.next();
                Checks.expect("interrupted", rows.getInt(1), 1);
            } catch (SQLException error) {
                Checks.expect("a time-out", error instanceof java.sql.SQLTimeoutException || error.getErrorCode() == 1317, true);
            }
            Checks.expect("early", System.nanoTime() - begun < 15_000_000_000L, true);
            Checks.expect("usable", column(connection, "SELECT 1"), List.of("1"));
        }
    }

    private static void cancel(boolean binary) throws Exception {
        try (Connection connection = connect(binary); PreparedStatement select = connection.prepareStatement("SELECT SLEEP(20)")) {
            long begun = System.nanoTime();
            CompletableFuture<String> running = CompletableFuture.supplyAsync(() -> {
                try (ResultSet rows = select.executeQuery()) {
                    rows.next();
                    return rows.getString(1);
                } catch (SQLException error) {
                    return "error";
                }
            });
            Thread.sleep(500);
            select.cancel();
            Checks.expect("ended", List.of("1", "error").contains(running.get()), true);
            Checks.expect("early", System.nanoTime() - begun < 15_000_000_000L, true);
            Checks.expect("usable", column(connection, "SELECT 1"), List.of("1"));
        }
    }

    private static void tables() throws Exception {
        with(false, "id INT PRIMARY KEY COMMENT 'the key', v VARCHAR(20) DEFAULT 'x'", (connection, table) -> {
            DatabaseMetaData data = connection.getMetaData();
            try (ResultSet rows = data.getTables(Checks.env("DATABASE"), null, table, new String[] {"TABLE"})) {
                Checks.expect("found", rows.next() && rows.getString("TABLE_NAME").equals(table) && !rows.next(), true);
            }
            try (ResultSet rows = data.getColumns(Checks.env("DATABASE"), null, table, null)) {
                rows.next();
                Checks.expect("first", List.of(rows.getString("COLUMN_NAME"), rows.getInt("DATA_TYPE"), rows.getString("REMARKS")), List.of("id", Types.INTEGER, "the key"));
                rows.next();
                Checks.expect("second", List.of(rows.getString("COLUMN_NAME"), rows.getInt("COLUMN_SIZE")), List.of("v", 20));
            }
            List<String> schemas = new ArrayList<>();
            try (ResultSet rows = data.getCatalogs()) {
                while (rows.next()) {
                    schemas.add(rows.getString(1));
                }
            }
            Checks.expect("catalogs", schemas.contains(Checks.env("DATABASE")), true);
            try (ResultSet rows = data.getTypeInfo()) {
                Checks.expect("types", rows.next(), true);
            }
        });
    }

    private static void keys() throws Exception {
        with(false, "id INT, other INT, PRIMARY KEY (id, other), INDEX by_other (other)", (connection, table) -> {
            DatabaseMetaData data = connection.getMetaData();
            List<String> keys = new ArrayList<>();
            try (ResultSet rows = data.getPrimaryKeys(Checks.env("DATABASE"), null, table)) {
                while (rows.next()) {
                    keys.add(rows.getString("COLUMN_NAME"));
                }
            }
            Checks.expect("primary key", keys, List.of("id", "other"));
            List<String> indexes = new ArrayList<>();
            try (ResultSet rows = data.getIndexInfo(Checks.env("DATABASE"), null, table, false, false)) {
                while (rows.next()) {
                    indexes.add(rows.getString("INDEX_NAME"));
                }
            }
            Checks.expect("indexes", indexes.contains("by_other"), true);
        });
    }

    private static void procedures() throws Exception {
        String name = Checks.PREFIX + "_p";
        try (Connection connection = Checks.connect()) {
            Checks.execute(connection, "CREATE PROCEDURE " + name + "(IN a INT, OUT b VARCHAR(10)) SET b = a");
            try {
                List<String> parameters = new ArrayList<>();
                try (ResultSet rows = connection.getMetaData().getProcedureColumns(Checks.env("DATABASE"), null, name, null)) {
                    while (rows.next()) {
                        parameters.add(rows.getString("COLUMN_NAME"));
                    }
                }
                Checks.expect("parameters", parameters, List.of("a", "b"));
            } finally {
                Checks.execute(connection, "DROP PROCEDURE " + name);
            }
        }
    }

    private static void validAndAbort() throws Exception {
        Connection connection = Checks.connect();
        Checks.expect("valid", connection.isValid(5), true);
        connection.abort(Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        }));
        for (int turn = 0; turn < 500 && !connection.isClosed(); turn++) {
            Thread.sleep(10);
        }
        Checks.expect("valid after abort", connection.isValid(5), false);
        try (Connection next = Checks.connect()) {
            Checks.expect("another", next.isValid(5), true);
        }
    }

    private static void networkTimeout() throws Exception {
        try (Connection connection = Checks.connect()) {
            connection.setNetworkTimeout(Runnable::run, 700);
            boolean failed = false;
            try {
                Checks.one(connection, "SELECT SLEEP(10)");
            } catch (SQLException error) {
                failed = true;
            }
            Checks.expect("failed", failed, true);
        }
    }

    private static void schemas() throws Exception {
        try (Connection connection = Checks.connect()) {
            for (int turn = 0; turn < 4; turn++) {
                String schema = turn % 2 == 0 ? "information_schema" : Checks.env("DATABASE");
                connection.setCatalog(schema);
                Checks.expect("schema", column(connection, "SELECT DATABASE()"), List.of(schema));
                Checks.expect("catalog", connection.getCatalog(), schema);
            }
        }
    }

    private static void manyConnections() throws Exception {
        List<Connection> all = new ArrayList<>();
        try {
            for (int i = 0; i < 40; i++) {
                all.add(Checks.connect());
            }
            for (Connection connection : all) {
                Checks.expect("answer", column(connection, "SELECT 1"), List.of("1"));
            }
        } finally {
            for (Connection connection : all) {
                connection.close();
            }
        }
    }

    private static void processList() throws Exception {
        try (Connection connection = Checks.connect()) {
            String own = Checks.one(connection, "SELECT CONNECTION_ID()");
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SHOW PROCESSLIST")) {
                int found = 0;
                while (rows.next()) {
                    found += rows.getString("Id").equals(own) && "SHOW PROCESSLIST".equals(rows.getString("Info")) ? 1 : 0;
                }
                Checks.expect("own row", found, 1);
            }
        }
    }
}
