import com.github.fppt.jedismock.RedisServer;
import java.util.List;

/** jedis-mock, started like a server: with --version, or with --port PORT among other arguments. */
public class Server {
    public static void main(String[] words) throws Exception {
        if (List.of(words).contains("--version")) {
            System.out.println("Jedis-mock server v=1.1.18");
            return;
        }
        int port = Integer.parseInt(words[List.of(words).indexOf("--port") + 1]);
        RedisServer.newRedisServer(port).start();
        Thread.currentThread().join();
    }
}
