import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;

/** The check runner, the settings and the scenarios; what is checked stands in Main. */
final class Checks {
    interface Body { void run() throws Exception; }

    static final String PREFIX = "java_" + ProcessHandle.current().pid() + "_" + Long.toHexString(System.nanoTime() & 0xffffff);
    static final long WAIT_AT_MOST_NS = 30_000_000_000L;
    static boolean failed = false;

    private Checks() { }

    static String env(String name) {
        return Objects.requireNonNullElse(System.getenv("DELPHINUS_" + name), "");
    }

    static boolean encrypted() {
        return env("TLS").equals("on");
    }

    /** A connection with the settings of the environment; `changes` are name, value, name, value... */
    static Connection connect(String... changes) throws SQLException {
        Properties all = new Properties();
        all.setProperty("user", env("USER"));
        all.setProperty("password", env("PASSWORD"));
        all.setProperty("database", env("DATABASE"));
        all.setProperty("sslMode", encrypted() ? "REQUIRED" : "DISABLED");
        all.setProperty("useCompression", String.valueOf(env("COMPRESS").equals("on")));
        all.setProperty("allowPublicKeyRetrieval", "true");
        all.setProperty("connectTimeout", "20000");
        all.setProperty("socketTimeout", "120000");
        all.setProperty("connectionTimeZone", "UTC");
        for (int i = 0; i < changes.length; i += 2) {
            all.setProperty(changes[i], changes[i + 1]);
        }
        String database = (String) all.remove("database");
        return DriverManager.getConnection("jdbc:mysql://" + env("HOST") + ":" + env("PORT") + "/" + database, all);
    }

    static void check(String name, Body body) {
        if (!name.contains(env("ONLY"))) {
            return;
        }
        long begun = System.nanoTime();
        try {
            body.run();
            System.out.printf("ok %s (%.1f s)%n", name, (System.nanoTime() - begun) / 1e9);
        } catch (Throwable error) {
            failed = true;
            String text = String.valueOf(error).replace('\n', ' ');
            System.out.println("FAIL " + name + ": " + text.substring(0, Math.min(600, text.length())));
            if (!env("TRACE").isEmpty()) {
                error.printStackTrace();
            }
        }
    }

    static void expect(String what, Object got, Object wanted) {
        if (!Objects.deepEquals(got, wanted)) {
            throw new AssertionError(what + ": got " + shortened(got) + ", wanted " + shortened(wanted));
        }
    }

    static String shortened(Object value) {
        String text = String.valueOf(value);
        return text.length() < 200 ? text : text.substring(0, 200) + "... (" + text.length() + ")";
    }

    static void expectError(Body body, String state, Integer... numbers) throws Exception {
        try {
            body.run();
        } catch (SQLException error) {
            if (!List.of(numbers).contains(error.getErrorCode())) {
                throw new AssertionError("error " + error.getErrorCode() + " (" + error.getMessage() + "), wanted " + List.of(numbers));
            }
            // The driver replaces the SQLSTATE of some errors by its own.
            if (state != null && error.getErrorCode() != 1205) {
                expect("SQLSTATE of " + error.getErrorCode(), error.getSQLState(), state);
            }
            return;
        }
        throw new AssertionError("no error, wanted " + List.of(numbers));
    }

    static int execute(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(connection, sql, values)) {
            return statement.executeUpdate();
        }
    }

    static String one(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(connection, sql, values); ResultSet rows = statement.executeQuery()) {
            rows.next();
            return rows.getString(1);
        }
    }

    private static PreparedStatement prepare(Connection connection, String sql, Object... values) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
        return statement;
    }

    static void drop(String table) throws SQLException {
        try (Connection connection = connect()) {
            execute(connection, "DROP TABLE IF EXISTS " + table);
        }
    }

    static final class Step {
        String conn = "a";
        String sql;
        List<List<String>> rows;
        Integer affected;
        Object error;
        String state;
        boolean eventually;
    }

    static final class Scenario {
        String name;
        String flavor;
        boolean text_only;
        List<Step> steps;
    }

    static List<Scenario> scenarios(String flavor) throws Exception {
        String path = env("SCENARIOS").isEmpty() ? "../scenarios.json" : env("SCENARIOS");
        List<Scenario> all = new Gson().fromJson(Files.readString(Path.of(path)), new TypeToken<List<Scenario>>() { });
        return all.stream().filter(s -> s.flavor == null || s.flavor.equals(flavor)).toList();
    }

    /** Plays one scenario; `prepared` sends what can be prepared over the binary protocol. */
    static void play(Scenario scenario, boolean prepared) throws Exception {
        String full = PREFIX + (prepared ? "_p_" : "_t_") + scenario.name;
        String name = full.substring(0, Math.min(56, full.length()));
        Map<String, Connection> connections = new HashMap<>();
        try {
            for (int i = 0; i < scenario.steps.size(); i++) {
                Step step = scenario.steps.get(i);
                String sql = fill(step.sql, name);
                if (!connections.containsKey(step.conn)) {
                    connections.put(step.conn, connect("useServerPrepStmts", "true", "useAffectedRows", "true",
                        "allowMultiQueries", "false", "trackSessionState", "true"));
                }
                try {
                    play(step, connections.get(step.conn), sql, name, prepared);
                } catch (Exception | AssertionError error) {
                    throw new AssertionError("step " + (i + 1) + " `" + shortened(sql) + "`: " + error.getMessage());
                }
            }
        } finally {
            for (Connection connection : connections.values()) {
                connection.close();
            }
            drop(name + ", " + name + "_2");
        }
    }

    private static String fill(String text, String name) {
        return text == null ? null : text.replace("{p}", name).replace("{db}", env("DATABASE"));
    }

    private static void play(Step step, Connection connection, String sql, String name, boolean prepared) throws Exception {
        if (step.error != null) {
            List<?> numbers = step.error instanceof List<?> list ? list : List.of(step.error);
            List<Integer> wanted = new ArrayList<>(numbers.stream().map(n -> ((Number) n).intValue()).toList());
            boolean isReadOnly = wanted.contains(1792);
            if (isReadOnly) {
                wanted.add(0); // the driver itself refuses writes where it knows that the session is read-only
            }
            expectError(() -> run(connection, sql, prepared), isReadOnly ? null : step.state, wanted.toArray(Integer[]::new));
        } else if (step.rows != null) {
            List<List<String>> wanted = step.rows.stream()
                .map(row -> row.stream().map(cell -> fill(cell, name)).collect(ArrayList<String>::new, List::add, List::addAll))
                .map(row -> (List<String>) row).toList();
            rows(connection, sql, prepared, step.eventually, wanted);
        } else {
            Result result = run(connection, sql, prepared);
            if (step.affected != null) {
                expect("affected rows", result.affected, step.affected);
            }
        }
    }

    private static void rows(Connection connection, String sql, boolean prepared, boolean eventually, List<List<String>> wanted) throws Exception {
        long deadline = System.nanoTime() + WAIT_AT_MOST_NS;
        while (true) {
            try {
                List<List<String>> got = run(connection, sql, prepared).rows;
                if (got.equals(wanted) || !eventually || System.nanoTime() > deadline) {
                    expect("rows", got, wanted);
                    return;
                }
            } catch (SQLException error) {
                if (!eventually || System.nanoTime() > deadline) {
                    throw error;
                }
            }
            Thread.sleep(10);
        }
    }

    private record Result(List<List<String>> rows, int affected) { }

    private static Result run(Connection connection, String sql, boolean prepared) throws SQLException {
        if (prepared && sql.matches("(?is)(select|insert|update|delete)\\b.*")) {
            try (PreparedStatement statement = connection.prepareStatement(sql)) {
                return result(statement, statement.execute());
            }
        }
        try (Statement statement = connection.createStatement()) {
            statement.setEscapeProcessing(false);
            return result(statement, statement.execute(sql));
        }
    }

    private static Result result(Statement statement, boolean hasRows) throws SQLException {
        List<List<String>> all = new ArrayList<>();
        if (!hasRows) {
            return new Result(all, statement.getUpdateCount());
        }
        try (ResultSet rows = statement.getResultSet()) {
            int width = rows.getMetaData().getColumnCount();
            while (rows.next()) {
                List<String> row = new ArrayList<>();
                for (int i = 1; i <= width; i++) {
                    row.add(rows.getString(i));
                }
                all.add(row);
            }
        }
        return new Result(all, -1);
    }
}
