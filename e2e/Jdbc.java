import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;

/** Queries over PostgreSQL's JDBC driver. The argument is the address. Prints one line per check: its name and result. */
public class Jdbc {
    interface Check {
        Object run() throws Exception;
    }

    static void check(String name, Check check) {
        try {
            System.out.println(name + ": " + check.run());
        } catch (SQLException error) {
            System.out.println(name + ": " + error.getSQLState());
        } catch (Exception error) {
            System.out.println(name + ": " + error);
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            found.add(rows.getString(name));
        }
        return found;
    }

    static List<Object> prepared(Connection connection) throws SQLException {
        List<Object> found = new ArrayList<>();
        String query = "SELECT time, usage, n FROM cpu WHERE host = ? AND usage > ? AND n > ? AND time >= ? ORDER BY time LIMIT ?";
        try (PreparedStatement statement = connection.prepareStatement(query)) {
            // The driver prepares a statement on the server, and reads binary values, from its fifth run.
            for (int run = 0; run < 7; run++) {
                statement.setString(1, "a");
                statement.setDouble(2, 56.5);
                statement.setInt(3, 50);
                statement.setObject(4, OffsetDateTime.of(1970, 1, 1, 0, 0, 58, 0, ZoneOffset.UTC));
                statement.setInt(5, 5);
                found.clear();
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        found.add(List.of(rows.getObject(1, OffsetDateTime.class), rows.getDouble(2), rows.getLong(3)));
                    }
                }
            }
        }
        return found;
    }

    /** Reads rows in parts of 50, which needs a transaction. */
    static int parts(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(50);
            int count = 0;
            try (ResultSet rows = statement.executeQuery("SELECT * FROM cpu")) {
                while (rows.next()) {
                    count++;
                }
            }
            connection.commit();
            return count;
        } finally {
            connection.setAutoCommit(true);
        }
    }

    /** Runs a query without end. The driver cancels it after a second. */
    static Object timeout(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            return statement.executeQuery("SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value < 0");
        }
    }

    static long one(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        try (Connection connection = DriverManager.getConnection(arguments[0], "any", "any")) {
            DatabaseMetaData metadata = connection.getMetaData();
            check("valid", () -> connection.isValid(5));
            check("tables", () -> column(metadata.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME"));
            check("columns", () -> column(metadata.getColumns(null, "public", "cpu", "%"), "COLUMN_NAME"));
            check("types", () -> column(metadata.getColumns(null, "public", "cpu", "%"), "TYPE_NAME"));
            check("prepared", () -> prepared(connection));
            check("parts", () -> parts(connection));
            check("timeout", () -> timeout(connection));
            check("after", () -> one(connection, "SELECT count(*) FROM cpu"));
            check("write", () -> one(connection, "INSERT INTO cpu VALUES (1)"));
        }
    }
}
