// A segmentio/kafka-go consumer that writes down its generations, like the rebalance callbacks of TruthConsumer.java.
//
// kafka.Reader does not report rebalances to its user, so this is what a Reader is made of: a ConsumerGroup, a reader per
// partition that ends with the generation, one handler for all, and commits every five seconds of what has moved.
package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"lab/truth"
)

type fetched struct {
	message kafka.Message
	in      truth.Membership
}

type consumer struct {
	client   *truth.Client
	messages chan fetched
	lock     sync.Mutex
	done     map[string]map[int]int64
}

func main() {
	client := truth.Open()
	settings := client.Settings
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                settings["group.id"],
		Brokers:           strings.Split(settings["bootstrap.servers"], ","),
		Dialer:            &kafka.Dialer{ClientID: settings["client.id"], Timeout: 10 * time.Second},
		Topics:            client.Topics,
		GroupBalancers:    balancers(settings["partition.assignment.strategy"]),
		SessionTimeout:    client.Millis("session.timeout.ms", 10_000),
		HeartbeatInterval: client.Millis("heartbeat.interval.ms", 3000),
		RebalanceTimeout:  client.Millis("rebalance.timeout.ms", 30_000),
		StartOffset:       kafka.FirstOffset,
		ErrorLogger: kafka.LoggerFunc(func(text string, arguments ...any) {
			client.Write("library_error", map[string]any{"error": text})
		}),
	})
	truth.Must(err)
	c := &consumer{client: client, messages: make(chan fetched), done: map[string]map[int]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-client.Closing
		client.Write("close_start", nil)
		cancel()
		if err := group.Close(); err != nil {
			client.Write("close_failed", map[string]any{"error": err.Error()})
		}
		client.Write("closed", nil)
		close(c.messages)
	}()
	go func() {
		for ctx.Err() == nil {
			generation, err := group.Next(ctx)
			if errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err == nil {
				c.begin(generation)
			}
		}
	}()
	for next := range c.messages {
		client.Process(next.message.Topic, int32(next.message.Partition), next.in)
		c.lock.Lock()
		if c.done[next.message.Topic] == nil {
			c.done[next.message.Topic] = map[int]int64{}
		}
		c.done[next.message.Topic][next.message.Partition] = next.message.Offset + 1
		c.lock.Unlock()
	}
}

func (c *consumer) begin(generation *kafka.Generation) {
	in := truth.Membership{MemberID: generation.MemberID, Generation: generation.ID}
	partitions := []string{}
	for topic, given := range generation.Assignments {
		for _, one := range given {
			partitions = append(partitions, truth.Name(topic, int32(one.ID)))
		}
	}
	c.client.Saw("assigned", partitions, in)
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		c.client.Saw("revoked", partitions, in)
	})
	generation.Start(func(ctx context.Context) { c.commitNowAndThen(ctx, generation) })
	for topic, given := range generation.Assignments {
		for _, one := range given {
			generation.Start(func(ctx context.Context) { c.read(ctx, topic, one, in) })
		}
	}
}

func (c *consumer) read(ctx context.Context, topic string, one kafka.PartitionAssignment, in truth.Membership) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   strings.Split(c.client.Settings["bootstrap.servers"], ","),
		Dialer:    &kafka.Dialer{ClientID: c.client.Settings["client.id"], Timeout: 10 * time.Second},
		Topic:     topic,
		Partition: one.ID,
		MaxWait:   500 * time.Millisecond,
	})
	defer reader.Close()
	if reader.SetOffset(one.Offset) != nil {
		return
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		select {
		case c.messages <- fetched{message, in}:
		case <-ctx.Done():
			return
		}
	}
}

// commitNowAndThen commits like a Reader with a CommitInterval: what has moved, and the rest when the generation ends.
func (c *consumer) commitNowAndThen(ctx context.Context, generation *kafka.Generation) {
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-time.After(c.client.Millis("auto.commit.interval.ms", 5000)):
		}
		c.lock.Lock()
		done := c.done
		c.done = map[string]map[int]int64{}
		c.lock.Unlock()
		if len(done) > 0 {
			if err := generation.CommitOffsets(done); err != nil {
				c.client.Write("commit_failed", map[string]any{"error": err.Error()})
			}
		}
	}
}

func balancers(names string) []kafka.GroupBalancer {
	known := map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}
	var found []kafka.GroupBalancer
	for name := range strings.SplitSeq(names, ",") {
		found = append(found, known[name])
	}
	return found
}
