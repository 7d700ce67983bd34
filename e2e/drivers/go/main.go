// go-sql-driver/mysql through database/sql: text (interpolated) and binary protocol, LOAD DATA from a reader,
// multi-statements, the pool of database/sql.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

func one(db *sql.DB, text string, args ...any) string {
	var cell sql.NullString
	must(db.QueryRow(text, args...).Scan(&cell))
	if !cell.Valid {
		return "NULL"
	}
	return cell.String
}

func ping(change func(*mysql.Config)) error {
	db := open(change)
	defer db.Close()
	return db.Ping()
}

func logins() {
	check("login_tcp", func() {
		before := handshakes.Load()
		db := open(nil)
		defer db.Close()
		expect("CURRENT_USER()", strings.Split(one(db, "SELECT CURRENT_USER()"), "@")[0], env("USER"))
		expect("the connection is encrypted", handshakes.Load() > before, env("TLS") == "on")
	})
	if env("SOCKET") != "" {
		check("login_socket", func() {
			db := open(func(c *mysql.Config) { c.Net, c.Addr, c.TLSConfig = "unix", env("SOCKET"), "" })
			defer db.Close()
			expect("DATABASE()", one(db, "SELECT DATABASE()"), env("DATABASE"))
		})
	}
	check("wrong_password", func() {
		expectError(ping(func(c *mysql.Config) { c.Passwd = "certainly wrong" }), "28000", 1045)
		expectError(ping(func(c *mysql.Config) { c.Passwd = "" }), "28000", 1045)
		expectError(ping(func(c *mysql.Config) { c.User = "nobody_at_all" }), "28000", 1045)
	})
	check("unknown_database", func() {
		expectError(ping(func(c *mysql.Config) { c.DBName = "nowhere_" + prefix }), "42000", 1049, 1044)
	})
	check("connection_attributes_and_charset", func() {
		db := open(func(c *mysql.Config) {
			c.ConnectionAttributes = "program:" + strings.Repeat("x", 300)
			c.Collation = "utf8mb4_bin"
		})
		defer db.Close()
		expect("collation", one(db, "SELECT @@collation_connection"), "utf8mb4_bin")
	})
	check("compression_asked_for", func() {
		// A proxy may do without it; the driver must be able to talk either way.
		db := open(func(c *mysql.Config) { must(c.Apply(mysql.EnableCompression(true))) })
		defer db.Close()
		expect("a compressible result", one(db, "SELECT REPEAT('a', 300000)"), strings.Repeat("a", 300000))
	})
}

type row struct {
	kind  string
	value any
}

var stamp = time.Date(2038, 1, 19, 1, 2, 3, 456789000, time.UTC)

var samples = []row{
	{"TINYINT", int64(-128)}, {"TINYINT UNSIGNED", int64(255)}, {"SMALLINT", int64(-32768)},
	{"MEDIUMINT", int64(8388607)}, {"INT", int64(-2147483648)}, {"INT UNSIGNED", int64(4294967295)},
	{"BIGINT", int64(-9223372036854775808)}, {"BIGINT UNSIGNED", uint64(18446744073709551615)},
	{"FLOAT", 1.5}, {"DOUBLE", -2.25e300}, {"DECIMAL(30,10)", "-12345678901234567890.0123456789"},
	{"DATE", time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)}, {"DATETIME(6)", stamp}, {"TIMESTAMP(6) NULL", stamp},
	{"TIME(6)", "-838:59:58.999999"}, {"YEAR", int64(2155)}, {"CHAR(10)", "0123456789"},
	{"VARCHAR(200)", "naïve 🐬 'quoted' \\ \"%s\" ?"}, {"VARBINARY(300)", allBytes()},
	{"LONGBLOB", bytes.Repeat(allBytes(), 1000)}, {"LONGTEXT", "\x00\n\r\t\x1a😀"}, {"ENUM('a','b')", "b"},
	{"SET('x','y')", "x,y"}, {"BIT(10)", []byte{2, 1}}, {"JSON", `{"a": [1, "é😀"]}`}, {"LONGTEXT", ""},
}

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

func plain(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

// types writes and reads every sample and a NULL, by text (interpolated) or by binary protocol.
func types(interpolate bool) {
	db := open(func(c *mysql.Config) {
		c.InterpolateParams = interpolate
		c.Params = map[string]string{"time_zone": "'+00:00'"}
	})
	defer db.Close()
	name := fmt.Sprintf("%s_types_%v", prefix, interpolate)
	defer db.Exec("DROP TABLE IF EXISTS " + name)
	columns, marks, values, nulls := []string{}, []string{}, []any{}, []any{}
	for i, sample := range samples {
		columns = append(columns, fmt.Sprintf("c%d %s", i, sample.kind))
		marks, values, nulls = append(marks, "?"), append(values, sample.value), append(nulls, nil)
	}
	value(db.Exec(fmt.Sprintf("CREATE TABLE %s (id INT AUTO_INCREMENT PRIMARY KEY, %s) CHARACTER SET utf8mb4", name, strings.Join(columns, ", "))))
	insert := value(db.Prepare(fmt.Sprintf("INSERT INTO %s VALUES (NULL, %s)", name, strings.Join(marks, ", "))))
	defer insert.Close()
	for _, args := range [][]any{values, nulls, values} {
		expect("affected", value(value(insert.Exec(args...)).RowsAffected()), 1)
	}
	rows := value(db.Query("SELECT * FROM "+name+" WHERE id > ? ORDER BY id FOR UPDATE", 0))
	defer rows.Close()
	for _, wanted := range [][]any{values, nulls, values} {
		cells := make([]any, len(samples)+1)
		places := make([]any, len(cells))
		for i := range cells {
			places[i] = &cells[i]
		}
		expect("a row", rows.Next(), true)
		must(rows.Scan(places...))
		for i, cell := range cells[1:] {
			expect(samples[i].kind, plain(cell), plain(wanted[i]))
		}
	}
	expect("a row too many", rows.Next(), false)
	must(rows.Err())
}

func preparedAgain() {
	db := open(nil)
	defer db.Close()
	statement := value(db.Prepare("SELECT ? IS NULL, LENGTH(CONCAT(?, ''))"))
	defer statement.Close()
	for range 3 {
		for _, v := range []any{1, "text 😀", nil, 1.5, []byte{0, 255}, stamp, "", true, uint64(1 << 63), int64(-1)} {
			var isNull int
			var length sql.NullInt64
			must(statement.QueryRow(v, v).Scan(&isNull, &length))
			expect(fmt.Sprintf("IS NULL of %v", v), isNull == 1, v == nil)
			if text, ok := v.(string); ok {
				expect("length", length.Int64, len(text))
			}
		}
	}
}

func preparedMany() {
	db := open(nil)
	defer db.Close()
	db.SetMaxOpenConns(1)
	statements := make([]*sql.Stmt, 500)
	for i := range statements {
		statements[i] = value(db.Prepare(fmt.Sprintf("SELECT %d + ?", i)))
	}
	for i := 0; i < len(statements); i += 7 {
		must(statements[i].Close())
		statements[i] = nil
	}
	for i := len(statements) - 1; i >= 0; i-- {
		if statements[i] != nil {
			var sum int
			must(statements[i].QueryRow(1).Scan(&sum))
			expect("sum", sum, i+1)
			must(statements[i].Close())
		}
	}
	_, err := db.Prepare("SELEC ?")
	expectError(err, "42000", 1064)
	_, err = db.Prepare("SELECT * FROM " + prefix + "_nowhere WHERE a = ?")
	expectError(err, "42S02", 1146)
	expect("still usable", one(db, "SELECT ?", "yes"), "yes")
}

func insertIds() {
	db := open(nil)
	defer db.Close()
	db.SetMaxOpenConns(1)
	name := prefix + "_ids"
	defer db.Exec("DROP TABLE IF EXISTS " + name)
	value(db.Exec("CREATE TABLE " + name + " (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)"))
	expect("first id", value(value(db.Exec("INSERT INTO "+name+" (v) VALUES (1)")).LastInsertId()), 1)
	result := value(db.Exec("INSERT INTO "+name+" (v) VALUES (?), (?), (?)", 2, 3, 4))
	expect("first of three", value(result.LastInsertId()), 2)
	expect("affected", value(result.RowsAffected()), 3)
	expect("LAST_INSERT_ID()", one(db, "SELECT LAST_INSERT_ID()"), 2)
	_, err := db.Exec("INSERT INTO "+name+" (v) VALUES (?)", 2)
	expectError(err, "23000", 1062)
	value(db.Exec("INSERT INTO "+name+" VALUES (?, ?)", 1<<40, 10))
	expect("a big id", value(value(db.Exec("INSERT INTO "+name+" (v) VALUES (?)", 11)).LastInsertId()), 1<<40+1)
}

func foundRows() {
	changed := open(nil)
	found := open(func(c *mysql.Config) { c.ClientFoundRows = true })
	defer changed.Close()
	defer found.Close()
	name := prefix + "_found"
	defer changed.Exec("DROP TABLE IF EXISTS " + name)
	value(changed.Exec("CREATE TABLE " + name + " (v INT)"))
	value(changed.Exec("INSERT INTO " + name + " VALUES (1), (1), (2)"))
	for range 5 {
		expect("changed", value(value(changed.Exec("UPDATE "+name+" SET v = 1 WHERE v = ?", 1)).RowsAffected()), 0)
		expect("found", value(value(found.Exec("UPDATE "+name+" SET v = 1 WHERE v = ?", 1)).RowsAffected()), 2)
	}
}

func transactions() {
	db := open(nil)
	defer db.Close()
	name := prefix + "_txn"
	defer db.Exec("DROP TABLE IF EXISTS " + name)
	value(db.Exec("CREATE TABLE " + name + " (v INT)"))
	for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx := value(db.BeginTx(ctx, &sql.TxOptions{Isolation: level}))
		value(tx.Exec("INSERT INTO "+name+" VALUES (?)", int(level)))
		var count int
		must(tx.QueryRow("SELECT COUNT(*) FROM "+name+" WHERE v = ?", int(level)).Scan(&count))
		expect("own row", count, 1)
		if level == sql.LevelReadCommitted {
			must(tx.Rollback())
		} else {
			must(tx.Commit())
		}
	}
	tx := value(db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}))
	_, err := tx.Exec("INSERT INTO " + name + " VALUES (1)")
	expectError(err, "25006", 1792)
	var count int
	must(tx.QueryRow("SELECT COUNT(*) FROM " + name).Scan(&count))
	expect("committed rows", count, 3)
	must(tx.Rollback())
}

func noise(size int) []byte {
	data := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(data)
	return data
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func bigValues(size int, interpolate bool) {
	db := open(func(c *mysql.Config) { c.InterpolateParams = interpolate })
	defer db.Close()
	data := noise(size)
	expect("length", one(db, "SELECT LENGTH(?)", data), size)
	expect("digest", one(db, "SELECT SHA2(?, 256)", data), digest(data))
	var echo []byte
	var after int
	must(db.QueryRow("SELECT ?, 7", data).Scan(&echo, &after))
	expect("the echo is the same", bytes.Equal(echo, data), true)
	expect("the column after", after, 7)
	expect("big text", one(db, "SELECT REPEAT('ab', ?)", size/2) == strings.Repeat("ab", size/2), true)
}

func streamMany() {
	db := open(nil)
	defer db.Close()
	ten := "(SELECT 0 AS d" + func() (s string) {
		for i := 1; i < 10; i++ {
			s += fmt.Sprintf(" UNION ALL SELECT %d", i)
		}
		return
	}() + ")"
	text := fmt.Sprintf("SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d, REPEAT('x', 50) FROM %s a, %s b, %s c, %s e, %s f WHERE a.d < ?", ten, ten, ten, ten, ten)
	for _, args := range [][]any{nil, {10}} {
		query := text
		if args == nil {
			query = strings.Replace(text, "?", "10", 1)
		}
		rows := value(db.Query(query, args...))
		count, sum := 0, 0
		for rows.Next() {
			var n int
			var pad string
			must(rows.Scan(&n, &pad))
			count, sum = count+1, sum+n
		}
		must(rows.Err())
		expect("rows and sum", []int{count, sum}, []int{100000, 4999950000})
	}
	rows := value(db.Query(strings.Replace(text, "?", "10", 1)))
	rows.Next()
	must(rows.Close()) // the driver reads the rest
	expect("usable after", one(db, "SELECT 1"), 1)
}

func cancelled() {
	db := open(nil)
	defer db.Close()
	for range 3 {
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err := db.ExecContext(short, "SELECT SLEEP(3)")
		stop()
		expect("was cancelled", err != nil, true)
		expect("usable after", one(db, "SELECT 1"), 1)
	}
}

func multiStatements() {
	db := open(func(c *mysql.Config) { c.MultiStatements = true })
	defer db.Close()
	rows := value(db.Query("SELECT 1; SELECT ';', 2; SELECT 3"))
	counts := []int{}
	for more := true; more; more = rows.NextResultSet() {
		columns := value(rows.Columns())
		for rows.Next() {
			counts = append(counts, len(columns))
		}
	}
	must(rows.Err())
	rows.Close()
	expect("columns of the results", counts, []int{1, 2, 1})
	rows = value(db.Query("SELECT 1; SELEC 2"))
	for rows.Next() {
	}
	expect("more", rows.NextResultSet(), false)
	expectError(rows.Err(), "42000", 1064)
	rows.Close()
	single := open(nil)
	defer single.Close()
	_, err := single.Exec("SELECT 1; SELECT 2")
	expectError(err, "42000", 1064)
}

func procedure() {
	db := open(nil)
	defer db.Close()
	name := prefix + "_proc"
	defer db.Exec("DROP PROCEDURE IF EXISTS " + name)
	value(db.Exec("CREATE PROCEDURE " + name + "(IN n INT) BEGIN SELECT n; SELECT n + 1, 'x'; END"))
	for _, args := range [][]any{nil, {5}} { // text, then prepared
		call := "CALL " + name + "(5)"
		if args != nil {
			call = "CALL " + name + "(?)"
		}
		rows := value(db.Query(call, args...))
		got := []string{}
		for more := true; more; more = rows.NextResultSet() {
			for rows.Next() {
				cells := make([]any, len(value(rows.Columns())))
				places := make([]any, len(cells))
				for i := range cells {
					places[i] = &cells[i]
				}
				must(rows.Scan(places...))
				got = append(got, plain(cells[0]))
			}
		}
		must(rows.Err())
		rows.Close()
		expect("results", got, []string{"5", "6"})
		expect("usable after", one(db, "SELECT 1"), 1)
	}
}

func loadData() {
	db := open(nil)
	defer db.Close()
	name := prefix + "_load"
	defer db.Exec("DROP TABLE IF EXISTS " + name)
	value(db.Exec("CREATE TABLE " + name + " (id INT, v VARCHAR(100))"))
	var lines bytes.Buffer
	for i := range 100000 {
		fmt.Fprintf(&lines, "%d\tvalue %d\n", i, i)
	}
	mysql.RegisterReaderHandler("lines", func() io.Reader { return bytes.NewReader(lines.Bytes()) })
	result := value(db.Exec("LOAD DATA LOCAL INFILE 'Reader::lines' INTO TABLE " + name))
	expect("loaded", value(result.RowsAffected()), 100000)
	_, err := db.Exec("LOAD DATA LOCAL INFILE 'Reader::none' INTO TABLE " + name)
	expect("an unknown reader is refused", err != nil, true)
	expect("usable after", one(db, "SELECT COUNT(*) FROM "+name+" FOR UPDATE"), 100000)
}

func transfers() {
	db := open(nil)
	defer db.Close()
	db.SetMaxOpenConns(20)
	name := prefix + "_accounts"
	defer db.Exec("DROP TABLE IF EXISTS " + name)
	value(db.Exec("CREATE TABLE " + name + " (id INT PRIMARY KEY, balance INT NOT NULL)"))
	for account := 1; account <= 10; account++ {
		value(db.Exec("INSERT INTO "+name+" VALUES (?, 100)", account))
	}
	var workers sync.WaitGroup
	problems := make(chan any, 20)
	for worker := range 20 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			defer func() {
				if problem := recover(); problem != nil {
					problems <- problem
				}
			}()
			dice := rand.New(rand.NewSource(int64(worker)))
			for range 30 {
				for !transfer(db, name, 1+dice.Intn(10), 1+dice.Intn(10), dice.Intn(9)) {
				}
			}
		}()
	}
	workers.Wait()
	close(problems)
	for problem := range problems {
		panic(problem)
	}
	tx := value(db.Begin())
	var sum int
	must(tx.QueryRow("SELECT SUM(balance) FROM " + name).Scan(&sum))
	must(tx.Commit())
	expect("sum of balances", sum, 1000)
}

func transfer(db *sql.DB, name string, from, to, amount int) bool {
	if from == to {
		return true
	}
	tx := value(db.Begin())
	err := func() error {
		var balance int
		if err := tx.QueryRow("SELECT balance FROM "+name+" WHERE id = ? FOR UPDATE", from).Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE "+name+" SET balance = ? WHERE id = ?", balance-amount, from); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE "+name+" SET balance = balance + ? WHERE id = ?", amount, to); err != nil {
			return err
		}
		return tx.Commit()
	}()
	if err != nil {
		tx.Rollback()
		expectError(err, "40001", 1213)
	}
	return err == nil
}

func main() {
	db := open(nil)
	flavor := "mysql"
	if strings.Contains(one(db, "SELECT VERSION()"), "MariaDB") {
		flavor = "mariadb"
	}
	db.Close()
	logins()
	check("text_types", func() { types(true) })
	check("prepared_types", func() { types(false) })
	check("prepared_again_with_other_types", preparedAgain)
	check("prepared_many", preparedMany)
	check("insert_ids", insertIds)
	check("found_rows_flag", foundRows)
	check("transactions", transactions)
	for _, interpolate := range []bool{true, false} {
		check(fmt.Sprintf("big_values_1m_%v", interpolate), func() { bigValues(megabyte, interpolate) })
		check(fmt.Sprintf("big_values_17m_%v", interpolate), func() { bigValues(big, interpolate) })
	}
	check("stream_many_rows", streamMany)
	check("cancelled_queries", cancelled)
	check("multi_statements", multiStatements)
	check("stored_procedure", procedure)
	check("load_data_local", loadData)
	check("pool_of_connections", transfers)
	for _, s := range scenarios(flavor) {
		for _, prepared := range []bool{false, true} {
			if !prepared || !s.TextOnly {
				check(fmt.Sprintf("scenario_%s_%v", s.Name, prepared), func() {
					db := open(nil)
					defer db.Close()
					play(db, s, prepared)
				})
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}
