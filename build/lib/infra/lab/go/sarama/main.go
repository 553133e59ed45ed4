// A sarama consumer that writes down when its claims begin and end, like the rebalance callbacks of TruthConsumer.java.
//
// Setup hands out what is claimed; a claim that comes later (cooperative) is written when its handler starts. A claim
// is let go when its handler returns, one by one.
package main

import (
	"context"
	"errors"
	"strings"

	"github.com/IBM/sarama"
	"lab/truth"
)

type handler struct{ client *truth.Client }

func membership(session sarama.ConsumerGroupSession) truth.Membership {
	return truth.Membership{MemberID: session.MemberID(), Generation: session.GenerationID()}
}

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	h.client.Saw("assigned", truth.Names(session.Claims()), membership(session))
	return nil
}

func (h handler) Cleanup(session sarama.ConsumerGroupSession) error {
	h.client.Write("session_end", nil)
	return nil
}

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	name := truth.Name(claim.Topic(), claim.Partition())
	if !h.client.Holds(name) {
		h.client.Saw("assigned", []string{name}, membership(session))
	}
	defer func() { h.client.Saw("revoked", []string{name}, membership(session)) }()
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.client.Process(message.Topic, message.Partition, membership(session))
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	client := truth.Open()
	settings := client.Settings
	config := sarama.NewConfig()
	config.ClientID = settings["client.id"]
	if version, found := settings["lab.kafka.version"]; found {
		parsed, err := sarama.ParseKafkaVersion(version)
		truth.Must(err)
		config.Version = parsed
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = client.Millis("auto.commit.interval.ms", 1000)
	config.Consumer.Group.Session.Timeout = client.Millis("session.timeout.ms", 10_000)
	config.Consumer.Group.Heartbeat.Interval = client.Millis("heartbeat.interval.ms", 3000)
	config.Consumer.Group.Rebalance.Timeout = client.Millis("rebalance.timeout.ms", 60_000)
	config.Consumer.Group.Rebalance.GroupStrategies = truth.Assignors(settings["partition.assignment.strategy"], strategies)
	config.Consumer.Group.InstanceId = settings["group.instance.id"]
	group, err := sarama.NewConsumerGroup(strings.Split(settings["bootstrap.servers"], ","), settings["group.id"], config)
	truth.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-client.Closing
		client.Write("close_start", nil)
		cancel()
	}()
	for ctx.Err() == nil {
		err := group.Consume(ctx, client.Topics, handler{client})
		if err != nil && !errors.Is(err, context.Canceled) {
			client.Write("session_failed", map[string]any{"error": err.Error()})
		}
	}
	truth.Must(group.Close())
	client.Write("closed", nil)
}

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}
