// Offset commits through franz-go's kmsg, which is what kminion decodes with:
//
//	kmsg <file of records>
//
// Each line on stdin starts one pass over the file; its answer is a line "commits tombstones checksum seconds" of CPU time.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func part(data []byte, at int) ([]byte, int) {
	size := int(int32(binary.BigEndian.Uint32(data[at:])))
	at += 4
	if size < 0 {
		return nil, at
	}
	return data[at : at+size], at + size
}

func pass(data []byte) (commits, tombstones int, checksum uint64) {
	for at := 0; at < len(data); {
		var key, value []byte
		key, at = part(data, at)
		value, at = part(data, at)
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(key); err != nil {
			panic(err)
		}
		if value == nil {
			tombstones++
			continue
		}
		var v kmsg.OffsetCommitValue
		if err := v.ReadFrom(value); err != nil {
			panic(err)
		}
		commits++
		checksum += uint64(v.Offset)*31 + uint64(v.CommitTimestamp)*7 + uint64(k.Partition) + uint64(len(k.Group)) + uint64(len(k.Topic))
	}
	return
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	info, err := file.Stat()
	if err != nil {
		panic(err)
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		started := cpuSeconds()
		commits, tombstones, checksum := pass(data)
		fmt.Printf("%d %d %d %.6f\n", commits, tombstones, checksum, cpuSeconds()-started)
	}
}
