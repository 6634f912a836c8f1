// miniredis, started like a server: with --version, or with --port PORT among other arguments.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Its clock runs, but its times to live stand still unless it is told how much time has passed.
const step = 2 * time.Millisecond

func main() {
	port := ""
	for index, word := range os.Args {
		switch word {
		case "--version":
			fmt.Println("Miniredis server v=2.40.0")
			return
		case "--port":
			port = os.Args[index+1]
		}
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:" + port); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	last := time.Now()
	for range time.Tick(step) {
		now := time.Now()
		server.FastForward(now.Sub(last))
		last = now
	}
}
