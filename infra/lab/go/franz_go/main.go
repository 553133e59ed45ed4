// A franz-go consumer that writes down its rebalance callbacks, like TruthConsumer.java.
//
// `lab.block.rebalance=true` is BlockRebalanceOnPoll; the assignor `server` is ServerSideBalancer (KIP-848), `acme` one
// of a house of its own, whose subscriptions nobody else can read, `acme-torn` one whose end inside a topic's name, and
// `acme-data` one that puts its own data into them.
package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"lab/truth"
)

func main() {
	client := truth.Open()
	settings := client.Settings
	membership := func(consumer *kgo.Client) truth.Membership {
		member, generation := consumer.GroupMetadata()
		return truth.Membership{MemberID: member, Generation: generation}
	}
	saw := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(ctx context.Context, consumer *kgo.Client, partitions map[string][]int32) {
			if what == "revoked" {
				// What the library does itself where nobody asks for the callback.
				_ = consumer.CommitUncommittedOffsets(ctx)
			}
			client.Saw(what, truth.Names(partitions), membership(consumer))
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(settings["bootstrap.servers"], ",")...),
		kgo.ClientID(settings["client.id"]),
		kgo.ConsumerGroup(settings["group.id"]),
		kgo.ConsumeTopics(client.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.AutoCommitInterval(client.Millis("auto.commit.interval.ms", 5000)),
		kgo.MetadataMaxAge(client.Millis("metadata.max.age.ms", 300_000)),
		kgo.OnPartitionsAssigned(saw("assigned")),
		kgo.OnPartitionsRevoked(saw("revoked")),
		kgo.OnPartitionsLost(saw("lost")),
	}
	if assignor := settings["partition.assignment.strategy"]; assignor == "server" {
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(
			options,
			kgo.Balancers(truth.Assignors(assignor, balancers)...),
			kgo.SessionTimeout(client.Millis("session.timeout.ms", 10_000)),
			kgo.HeartbeatInterval(client.Millis("heartbeat.interval.ms", 3000)),
			kgo.RebalanceTimeout(client.Millis("rebalance.timeout.ms", 60_000)),
		)
	}
	if instance, found := settings["group.instance.id"]; found {
		options = append(options, kgo.InstanceID(instance))
	}
	if strings.HasPrefix(client.Topics[0], "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	blocks := settings["lab.block.rebalance"] == "true"
	if blocks {
		options = append(options, kgo.BlockRebalanceOnPoll())
	}
	consumer, err := kgo.NewClient(options...)
	truth.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-client.Closing
		cancel()
	}()
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				client.Write("failed_fetch", map[string]any{"error": err.Error()})
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			client.Process(record.Topic, record.Partition, membership(consumer))
		})
		if blocks {
			consumer.AllowRebalance()
		}
	}
	client.Write("close_start", nil)
	consumer.CloseAllowingRebalance()
	client.Write("closed", nil)
}

// foreign assigns as range does, under a name of its own.
type foreign struct {
	kgo.GroupBalancer
	name       string
	isReadable bool
	topics     []string
}

func (f *foreign) ProtocolName() string { return f.name }

func (f *foreign) JoinGroupMetadata(topics []string, owned map[string][]int32, generation int32) []byte {
	f.topics = topics
	if f.name == "acme-torn" {
		// Ends inside its only topic: a coordinator of 4.x cannot get over it, and the join phase does not end.
		return []byte("\x00\x00\x00\x00\x00\x01\x00\x06orde")
	}
	if !f.isReadable {
		// Ends before its second topic.
		return []byte("\x00\x00\x00\x00\x00\x02\x00\x06orders")
	}
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Version = 1
	metadata.Topics = topics
	metadata.UserData = []byte("\x00\x01\xff{\"zone\": \"a\", \"load\": 7}")
	return metadata.AppendTo(nil)
}

func (f *foreign) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	for i := range members {
		members[i].ProtocolMetadata = f.GroupBalancer.JoinGroupMetadata(f.topics, nil, -1)
	}
	return f.GroupBalancer.MemberBalancer(members)
}

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
	"acme":               func() kgo.GroupBalancer { return &foreign{GroupBalancer: kgo.RangeBalancer(), name: "acme"} },
	"acme-torn":          func() kgo.GroupBalancer { return &foreign{GroupBalancer: kgo.RangeBalancer(), name: "acme-torn"} },
	"acme-data": func() kgo.GroupBalancer {
		return &foreign{GroupBalancer: kgo.RangeBalancer(), name: "acme-data", isReadable: true}
	},
}
