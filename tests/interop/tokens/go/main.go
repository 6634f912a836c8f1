// Locks of redsync, driven over stdin with the protocol of ../../java/src/main/java/pyredisson/Peer.java.
//
// Each "thread" of a request is a goroutine, and an owner. Arguments are URL-encoded, and carry no letter of their type.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// The clock of Python's time.monotonic_ns().
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

var ctx = context.Background()

func open(address string) *redis.Client {
	// A dead node is not asked again and again, five times by default: redsync would wait for that.
	return redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1})
}

type owner struct {
	requests chan []string
	locks    *redsync.Redsync
	held     map[string]*redsync.Mutex
}

func (o *owner) run() {
	for request := range o.requests {
		value, err := o.perform(request[2], request[3:])
		if err != nil {
			fmt.Printf("%s\terror\t%T\t%s\n", request[0], err, url.QueryEscape(err.Error()))
		} else {
			fmt.Printf("%s\tok\t%s\n", request[0], value)
		}
	}
}

func (o *owner) perform(verb string, args []string) (string, error) {
	switch verb {
	case "clock":
		return fmt.Sprint("l", nanotime()), nil
	case "connect":
		var pools []rsredis.Pool
		for _, address := range args {
			pools = append(pools, goredis.NewPool(open(address)))
		}
		o.locks = redsync.New(pools...)
		return "n", nil
	case "lock", "try_lock":
		mutex := o.mutex(args[0], args[1])
		take := mutex.Lock
		if verb == "try_lock" {
			take = mutex.TryLock
		}
		if err := take(); err != nil {
			return "bfalse", nil
		}
		o.held[args[0]] = mutex
		return "btrue", nil
	case "unlock":
		released, _ := o.held[args[0]].Unlock()
		return fmt.Sprint("b", released), nil
	case "extend":
		extended, _ := o.held[args[0]].Extend()
		return fmt.Sprint("b", extended), nil
	case "value":
		return "s" + url.QueryEscape(o.held[args[0]].Value()), nil
	case "contend":
		return o.contend(args)
	}
	return "", fmt.Errorf("unknown verb %s", verb)
}

// Retries follow each other faster than by default, and a busy node is not taken for a dead one.
func (o *owner) mutex(name, leaseMs string) *redsync.Mutex {
	pause := func(int) time.Duration { return time.Duration(1+rand.Intn(10)) * time.Millisecond }
	return o.locks.NewMutex(name, redsync.WithExpiry(time.Duration(number(leaseMs))*time.Millisecond),
		redsync.WithTries(1<<30), redsync.WithRetryDelayFunc(pause), redsync.WithTimeoutFactor(0.5))
}

// As contend() in ../../contention.py.
func (o *owner) contend(args []string) (string, error) {
	name, counter, wanted := args[0], args[3], number(args[4])
	hold, rest := time.Duration(number(args[5])), number(args[6])
	client := open(args[2])
	defer client.Close()
	client.Incr(ctx, counter+":here")
	for client.Exists(ctx, counter+":begin").Val() == 0 {
		time.Sleep(time.Millisecond)
	}
	times := []string{}
	for {
		mutex := o.mutex(name, args[1])
		if err := mutex.Lock(); err != nil {
			return "", err
		}
		entered := nanotime()
		value, _ := client.Get(ctx, counter).Int64()
		twin, _ := client.Get(ctx, counter+":twin").Int64()
		if value != twin {
			return "", fmt.Errorf("another owner is inside: %d, then %d", value, twin)
		}
		over := value >= wanted && len(times) > 0
		if !over {
			client.Set(ctx, counter, value+1, 0)
			time.Sleep(hold)
			client.Set(ctx, counter+":twin", value+1, 0)
			times = append(times, fmt.Sprint(entered), fmt.Sprint(nanotime()))
		}
		if released, err := mutex.Unlock(); !released {
			return "", fmt.Errorf("not released: %v", err)
		}
		if over {
			return "a" + strings.Join(times, ","), nil
		}
		time.Sleep(time.Duration(rand.Int63n(2*rest + 1)))
	}
}

func number(word string) int64 {
	value, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	owners := map[string]*owner{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		request := strings.Split(lines.Text(), "\t")
		for i, word := range request {
			request[i], _ = url.QueryUnescape(word)
		}
		if owners[request[1]] == nil {
			owners[request[1]] = &owner{make(chan []string, 100), nil, map[string]*redsync.Mutex{}}
			go owners[request[1]].run()
		}
		owners[request[1]].requests <- request
	}
}
