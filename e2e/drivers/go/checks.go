// The check runner, the settings and the scenarios; what is checked stands in main.go.
package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	megabyte    = 1 << 20
	big         = 17 * megabyte // two packets
	waitAtMost  = 30 * time.Second
	tlsSettings = "delphinus"
)

var (
	ctx        = context.Background()
	failed     = false
	prefix     = fmt.Sprintf("go_%d_%06x", os.Getpid(), rand.Intn(1<<24))
	handshakes atomic.Int64
)

func env(name string) string { return os.Getenv("DELPHINUS_" + name) }

// config gives the settings of the environment; TLS counts its handshakes, to know that it was used.
func config() *mysql.Config {
	c := mysql.NewConfig()
	c.Net, c.Addr = "tcp", env("HOST")+":"+env("PORT")
	c.User, c.Passwd, c.DBName = env("USER"), env("PASSWORD"), env("DATABASE")
	c.ParseTime, c.Loc = true, time.UTC
	c.Timeout, c.ReadTimeout = 20*time.Second, 120*time.Second
	c.MaxAllowedPacket = 0 // ask the server
	if env("TLS") == "on" {
		c.TLSConfig = tlsSettings
	}
	if os.Getenv("DELPHINUS_COMPRESS") == "on" {
		must(c.Apply(mysql.EnableCompression(true)))
	}
	return c
}

func init() {
	must(mysql.RegisterTLSConfig(tlsSettings, &tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection:   func(tls.ConnectionState) error { handshakes.Add(1); return nil },
	}))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// value unwraps a pair; a check is ended by the panic of its first failure.
func value[T any](v T, err error) T {
	must(err)
	return v
}

func expect(what string, got, wanted any) {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		panic(fmt.Sprintf("%s: got %.200v, wanted %.200v", what, got, wanted))
	}
}

func check(name string, body func()) {
	if only := env("ONLY"); only != "" && !strings.Contains(name, only) {
		return
	}
	begun := time.Now()
	defer func() {
		if problem := recover(); problem != nil {
			failed = true
			fmt.Printf("FAIL %s: %.600s\n", name, strings.ReplaceAll(fmt.Sprint(problem), "\n", " "))
		} else {
			fmt.Printf("ok %s (%.1f s)\n", name, time.Since(begun).Seconds())
		}
	}()
	body()
}

func expectError(err error, state string, numbers ...uint16) {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		panic(fmt.Sprintf("wanted error %v, got %v", numbers, err))
	}
	for _, number := range numbers {
		if answer.Number == number {
			expect("SQLSTATE", string(answer.SQLState[:]), state)
			return
		}
	}
	panic(fmt.Sprintf("wanted error %v, got %v", numbers, err))
}

func open(change func(*mysql.Config)) *sql.DB {
	c := config()
	if change != nil {
		change(c)
	}
	return sql.OpenDB(value(mysql.NewConnector(c)))
}

// textRows reads all rows in the form that scenarios.json writes them in.
func textRows(rows *sql.Rows) ([][]*string, error) {
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	all := [][]*string{}
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		places := make([]any, len(columns))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		row := make([]*string, len(columns))
		for i, cell := range cells {
			if cell.Valid {
				row[i] = &cell.String
			}
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

type step struct {
	Conn       string
	Sql        string
	Rows       *[][]*string
	Affected   *int64
	Error      json.RawMessage
	State      string
	Eventually bool
}

type scenario struct {
	Name     string
	Flavor   string
	TextOnly bool `json:"text_only"`
	Steps    []step
}

// player plays one scenario; `prepared` sends what can be prepared over the binary protocol.
type player struct {
	db       *sql.DB
	prepared bool
	fill     *strings.Replacer
	conns    map[string]*sql.Conn
}

func play(db *sql.DB, s scenario, prepared bool) {
	name := fmt.Sprintf("%s_%v_%s", prefix, prepared, s.Name)
	name = name[:min(len(name), 56)]
	p := player{db, prepared, strings.NewReplacer("{p}", name, "{db}", env("DATABASE")), map[string]*sql.Conn{}}
	defer func() {
		for _, conn := range p.conns {
			// Ends the session: what a scenario left in it must not come back from the driver's pool.
			conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		value(db.Exec(fmt.Sprintf("DROP TABLE IF EXISTS %s, %s_2", name, name)))
	}()
	for number, step := range s.Steps {
		if problem := p.step(step); problem != "" {
			panic(fmt.Sprintf("step %d `%.200s`: %s", number+1, p.fill.Replace(step.Sql), problem))
		}
	}
}

func (p *player) conn(name string) *sql.Conn {
	if p.conns[name] == nil {
		p.conns[name] = value(p.db.Conn(ctx))
	}
	return p.conns[name]
}

func (p *player) query(conn *sql.Conn, text string) ([][]*string, error) {
	if word := strings.ToUpper(strings.Fields(text)[0]); p.prepared && (word == "SELECT" || word == "INSERT" || word == "UPDATE" || word == "DELETE") {
		statement, err := conn.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		defer statement.Close()
		rows, err := statement.QueryContext(ctx)
		if err != nil {
			return nil, err
		}
		return textRows(rows)
	}
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return textRows(rows)
}

func (p *player) step(s step) (problem string) {
	defer func() {
		if caught := recover(); caught != nil {
			problem = fmt.Sprint(caught)
		}
	}()
	conn, text := p.conn(s.Conn), p.fill.Replace(s.Sql)
	switch {
	case s.Error != nil:
		var number uint16
		var numbers []uint16
		if json.Unmarshal(s.Error, &number) == nil {
			numbers = []uint16{number}
		} else {
			must(json.Unmarshal(s.Error, &numbers))
		}
		_, err := p.query(conn, text)
		expectError(err, s.State, numbers...)
	case s.Rows != nil:
		wanted := p.fill.Replace(string(value(json.Marshal(s.Rows))))
		for deadline := time.Now().Add(waitAtMost); ; time.Sleep(10 * time.Millisecond) {
			rows, err := p.query(conn, text)
			if got := string(value(json.Marshal(rows))); err == nil && got == wanted {
				return ""
			} else if !s.Eventually || time.Now().After(deadline) {
				must(err)
				return fmt.Sprintf("got %.200s, wanted %.200s", got, wanted)
			}
		}
	default:
		result := p.exec(conn, text)
		if s.Affected != nil {
			expect("affected rows", value(result.RowsAffected()), *s.Affected)
		}
	}
	return ""
}

func (p *player) exec(conn *sql.Conn, text string) sql.Result {
	if word := strings.ToUpper(strings.Fields(text)[0]); p.prepared && (word == "INSERT" || word == "UPDATE" || word == "DELETE") {
		statement := value(conn.PrepareContext(ctx, text))
		defer statement.Close()
		return value(statement.ExecContext(ctx))
	}
	return value(conn.ExecContext(ctx, text))
}

func scenarios(flavor string) []scenario {
	var all, chosen []scenario
	path := env("SCENARIOS")
	if path == "" {
		path = "../scenarios.json"
	}
	must(json.Unmarshal(value(os.ReadFile(path)), &all))
	for _, s := range all {
		if s.Flavor == "" || s.Flavor == flavor {
			chosen = append(chosen, s)
		}
	}
	return chosen
}
