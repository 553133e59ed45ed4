module rebalance-audit/bench

go 1.24

require github.com/twmb/franz-go/pkg/kmsg v1.14.0
