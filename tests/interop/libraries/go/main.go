// Locks of Go's libraries, driven over stdin with the protocol of ../../java/src/main/java/pyredisson/Peer.java.
//
// The verb is the library, the arguments are the address of the server and the name. Each request has a client, acquires the
// lock as the library does by default, waiting, and keeps it.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const lease = time.Minute

func acquire(library, address, name string) error {
	ctx := context.Background()
	switch library {
	case "rueidislock":
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{address}},
		})
		if err != nil {
			return err
		}
		_, _, err = locker.WithContext(ctx, name)
		return err
	case "redislock":
		client := redis.NewClient(&redis.Options{Addr: address})
		pause := redislock.LinearBackoff(100 * time.Millisecond)
		_, err := redislock.Obtain(ctx, client, name, lease, &redislock.Options{RetryStrategy: pause})
		return err
	case "redsync":
		client := redis.NewClient(&redis.Options{Addr: address})
		locks := redsync.New(goredis.NewPool(client))
		return locks.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1000)).Lock()
	}
	return fmt.Errorf("unknown library %s", library)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		request := strings.Split(lines.Text(), "\t")
		for i, word := range request {
			request[i], _ = url.QueryUnescape(word)
		}
		go func() {
			if err := acquire(request[2], request[3], request[4]); err != nil {
				fmt.Printf("%s\terror\t%T\t%s\n", request[0], err, url.QueryEscape(err.Error()))
			} else {
				fmt.Printf("%s\tok\tbtrue\n", request[0])
			}
		}()
	}
}
