// Package truth is what every Go consumer of the lab has in common: its settings, its commands, and the file in which
// it writes down what it saw, by its own clock.
//
// Commands on standard input: `close`, `stall MS` (the next record's handler takes that long), `delay MS` (per record),
// `revoke_delay MS` (inside the revoked callback). End of input and SIGTERM close, too.
package truth

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Client is one consumer: its settings under Kafka's own names, and its truth file.
type Client struct {
	Settings map[string]string
	Topics   []string
	// Closing is closed when the consumer has to close.
	Closing chan struct{}

	name     string
	file     *os.File
	lock     sync.Mutex
	held     map[string]bool
	awaiting map[string]bool
	closing  sync.Once

	stallMs, delayMs, revokeDelayMs atomic.Int64
}

// Membership is what a client knows of its place in the group when it writes an event.
type Membership struct {
	MemberID   string
	Generation int32
}

// Open reads `PROGRAM consumer.properties topic,topic truth.jsonl` and begins to listen for commands.
func Open() *Client {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: consumer.properties topic,topic truth.jsonl")
		os.Exit(2)
	}
	settings, err := os.ReadFile(os.Args[1])
	Must(err)
	file, err := os.OpenFile(os.Args[3], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	Must(err)
	c := &Client{
		Settings: readProperties(string(settings)),
		Topics:   strings.Split(os.Args[2], ","),
		Closing:  make(chan struct{}),
		name:     strings.TrimSuffix(filepath.Base(os.Args[3]), ".jsonl"),
		file:     file,
		held:     map[string]bool{},
		awaiting: map[string]bool{},
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		c.close()
	}()
	go c.readCommands()
	c.Write("started", map[string]any{"topics": c.Topics})
	return c
}

// Must ends the process with the error: a lab client that cannot go on is seen by the driver.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Millis is a setting that is a number of milliseconds.
func (c *Client) Millis(name string, otherwise int64) time.Duration {
	ms := otherwise
	if text, found := c.Settings[name]; found {
		given, err := strconv.ParseInt(text, 10, 64)
		Must(err)
		ms = given
	}
	return time.Duration(ms) * time.Millisecond
}

// Write appends one event; one write per line, so that readers see whole lines.
func (c *Client) Write(event string, more map[string]any) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.write(event, more)
}

func (c *Client) write(event string, more map[string]any) {
	line := map[string]any{"at_ms": time.Now().UnixMilli(), "client": c.name, "event": event}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	Must(err)
	_, err = c.file.Write(append(text, '\n'))
	Must(err)
}

// Saw writes entry and exit of a rebalance callback: `assigned`, `revoked` or `lost`.
func (c *Client) Saw(what string, partitions []string, in Membership) {
	slices.Sort(partitions)
	more := c.membership(in)
	more["partitions"] = partitions
	c.Write(what+"_start", more)
	if what != "assigned" {
		time.Sleep(time.Duration(c.revokeDelayMs.Load()) * time.Millisecond)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, partition := range partitions {
		if what == "assigned" {
			c.held[partition], c.awaiting[partition] = true, true
		} else {
			delete(c.held, partition)
			delete(c.awaiting, partition)
		}
	}
	c.write(what+"_end", more)
}

// Holds says whether the partition was assigned and not taken away since.
func (c *Client) Holds(partition string) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.held[partition]
}

// Process is the application's handler of one record.
func (c *Client) Process(topic string, partition int32, in Membership) {
	name := Name(topic, partition)
	c.lock.Lock()
	if c.awaiting[name] {
		delete(c.awaiting, name)
		more := c.membership(in)
		more["partitions"] = []string{name}
		c.write("first_record", more)
	}
	c.lock.Unlock()
	if ms := c.stallMs.Swap(0); ms > 0 {
		c.Write("stall_start", map[string]any{"stall_ms": ms, "partitions": []string{name}})
		time.Sleep(time.Duration(ms) * time.Millisecond)
		c.Write("stall_end", nil)
	}
	time.Sleep(time.Duration(c.delayMs.Load()) * time.Millisecond)
}

// Name is Kafka's usual way to write a partition.
func Name(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// Names of partitions by topic.
func Names(partitions map[string][]int32) []string {
	names := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			names = append(names, Name(topic, number))
		}
	}
	return names
}

// Assignors that the client offers: those that a comma-separated list names, in its order, each made anew.
func Assignors[T any](names string, known map[string]func() T) []T {
	var found []T
	for name := range strings.SplitSeq(names, ",") {
		found = append(found, known[name]())
	}
	return found
}

func (c *Client) membership(in Membership) map[string]any {
	more := map[string]any{"group": c.Settings["group.id"], "member_id": in.MemberID, "generation": in.Generation}
	if instance, found := c.Settings["group.instance.id"]; found {
		more["group_instance_id"] = instance
	}
	return more
}

func (c *Client) readCommands() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		ms, _ := strconv.ParseInt(rest, 10, 64)
		switch word {
		case "close":
			c.close()
		case "stall":
			c.stallMs.Store(ms)
		case "delay":
			c.delayMs.Store(ms)
		case "revoke_delay":
			c.revokeDelayMs.Store(ms)
		default:
			c.Write("unknown_command", map[string]any{"command": lines.Text()})
		}
	}
	c.close()
}

func (c *Client) close() {
	c.closing.Do(func() { close(c.Closing) })
}

// readProperties reads the plain subset that the lab itself writes: `name=value` lines with doubled backslashes.
func readProperties(text string) map[string]string {
	settings := map[string]string{}
	unescape := strings.NewReplacer(`\\`, `\`, `\n`, "\n")
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "="); found {
			settings[name] = unescape.Replace(value)
		}
	}
	return settings
}
