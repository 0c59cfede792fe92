#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "event_server.hpp"
#include "streams.hpp"

// 1,000 answers at once from a server process, read on one thread: by agents, and by a minimal reader
// (epoll, one buffer per socket, the time looked up in each event). Prints one JSON object.

namespace cubepi::bench {
namespace {

constexpr int streams = 1'000;
constexpr int flood_events = 500;
constexpr int paced_events = 80;
constexpr int warm_up = 20;
constexpr std::int64_t period_us = 50'000;  // 20,000 events a second over all streams

/// Measurements of the readers of one round.
struct Seen {
    std::vector<std::int64_t> delays = {};
    std::size_t events = 0;
    std::size_t bytes_open = 0;  ///< on the heap when all streams were open
    int last = 0;                ///< number of a stream's last event

    /// `number` of the event in its stream. While the streams still open, the delay is the opening's; the last is waited
    /// for behind the ends of the others.
    void event(std::string_view text, int number) {
        ++events;
        if (number < warm_up || number == last) return;
        std::int64_t sent = 0;
        if (std::from_chars(text.data(), text.data() + text.size(), sent).ec != std::errc()) return;
        delays.push_back(now_ns() - sent);
    }
};

struct Round {
    double seconds = 0;
    double cpu_ns_per_event = 0;
    double events_per_second = 0;
    double p50_us = 0;
    double p99_us = 0;
    double bytes_per_stream = 0;
};

double cpu_seconds() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::size_t heap_bytes() { return mallinfo2().uordblks; }

EventForm form_of(Wire wire) {
    // One delta in the middle represents all; the digits of a time replace its word.
    const std::vector<std::string> all = payloads(wire, 1);
    EventForm form;
    bool before = true;
    for (const std::string& payload : all) {
        const std::string whole = framed(wire, payload);
        const std::size_t word = whole.find(" word0");
        if (before && word != std::string::npos) {
            form.before = whole.substr(0, word);
            form.after = whole.substr(word + 6);
            before = false;
        } else {
            (before ? form.opening : form.closing) += whole;
        }
    }
    if (wire == Wire::chat) form.closing += "data: [DONE]\n\n";
    return form;
}

Task<void> one_agent(BoundModel model, std::shared_ptr<const Runtime> runtime, Seen* seen,
                     int* open, std::size_t heap_before) {
    AgentOptions options;
    options.model = std::move(model);
    options.runtime = std::move(runtime);
    Agent agent(std::move(options));
    int number = 0;
    agent.subscribe([&](const AgentEvent& event) {
        const std::string_view* delta = event.text_delta();
        if (!delta) return;
        if (number == 0 && ++*open == streams) seen->bytes_open = heap_bytes() - heap_before;
        seen->event(*delta, number++);
    });
    RunResult result = co_await agent.prompt("hi");
    if (!result) std::fprintf(stderr, "%s\n", result.error().what());
}

void read_with_agents(Wire wire, std::uint16_t port, Seen& seen) {
    const BoundModel model = model_at(wire, "http://127.0.0.1:" + std::to_string(port));
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    int open = 0;
    const std::size_t before = heap_bytes();
    const auto all = [&]() -> Task<void> {
        TaskScope scope(co_await this_executor);
        for (int i = 0; i < streams; ++i)
            scope.spawn(one_agent(model, runtime, &seen, &open, before));
        co_await scope.join();
    };
    run(all());
}

/// The floor.
void read_bare(Wire, std::uint16_t port, Seen& seen) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const int epoll = epoll_create1(0);
    struct Stream {
        std::string buffer = {};
        int number = 0;
    };
    std::unordered_map<int, Stream> buffers;
    const std::size_t before = heap_bytes();
    for (int i = 0; i < streams; ++i) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
        const std::string_view request = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
        (void)!write(fd, request.data(), request.size());
        buffers[fd];
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        wanted.data.fd = fd;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted);
    }
    std::string piece(65536, '\0');
    while (!buffers.empty()) {
        epoll_event ready[256];
        const int count = epoll_wait(epoll, ready, 256, -1);
        for (int i = 0; i < count; ++i) {
            const int fd = ready[i].data.fd;
            const ssize_t got = read(fd, piece.data(), piece.size());
            if (got <= 0) {
                close(fd);
                buffers.erase(fd);
                continue;
            }
            Stream& stream = buffers[fd];
            std::string& buffer = stream.buffer;
            buffer.append(piece.data(), static_cast<std::size_t>(got));
            std::size_t at = 0;
            for (std::size_t end; (end = buffer.find("\n\n", at)) != std::string::npos;
                 at = end + 2) {
                const std::string_view event = std::string_view(buffer).substr(at, end - at);
                const std::size_t time = event.find("\"0000");
                if (time != std::string_view::npos)
                    seen.event(event.substr(time + 1, 20), stream.number++);
            }
            buffer.erase(0, at);
        }
        if (seen.bytes_open == 0) seen.bytes_open = heap_bytes() - before;
    }
    close(epoll);
}

/// Raises the scheduling priority of this process and its later children during its lifetime, if permitted: on a
/// busy machine, delays would otherwise depend on other processes.
class Ahead {
public:
    explicit Ahead(bool wanted) : set_(wanted && set(SCHED_RR, 1)) {}
    ~Ahead() {
        if (set_) set(SCHED_OTHER, 0);
    }
    Ahead(const Ahead&) = delete;
    Ahead& operator=(const Ahead&) = delete;

private:
    static bool set(int policy, int priority) {
        sched_param parameter{};
        parameter.sched_priority = priority;
        return sched_setscheduler(0, policy, &parameter) == 0;
    }

    bool set_;
};

Round measure(void (*reader)(Wire, std::uint16_t, Seen&), Wire wire, int events,
              std::int64_t period) {
    const Ahead ahead(period > 0);
    EventServer server(form_of(wire), events, period);
    Seen seen;
    seen.last = events - 1;
    seen.delays.reserve(static_cast<std::size_t>(streams) * static_cast<std::size_t>(events));
    const double cpu = cpu_seconds();
    const std::int64_t begin = now_ns();
    reader(wire, server.port(), seen);
    Round round;
    round.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    const auto count = static_cast<double>(seen.events);
    round.cpu_ns_per_event = (cpu_seconds() - cpu) * 1e9 / count;
    round.events_per_second = count / round.seconds;
    round.bytes_per_stream = static_cast<double>(seen.bytes_open) / streams;
    std::sort(seen.delays.begin(), seen.delays.end());
    if (seen.delays.empty()) return round;
    round.p50_us = static_cast<double>(seen.delays[seen.delays.size() / 2]) / 1e3;
    round.p99_us = static_cast<double>(seen.delays[seen.delays.size() * 99 / 100]) / 1e3;
    return round;
}

struct Kind {
    const char* name;
    void (*reader)(Wire, std::uint16_t, Seen&);
    int events;
    std::int64_t period;
};

constexpr Kind kinds[] = {
    {"bare_flood", read_bare, flood_events, 0},
    {"agents_flood", read_with_agents, flood_events, 0},
    {"bare_paced", read_bare, paced_events, period_us},
    {"agents_paced", read_with_agents, paced_events, period_us},
};
constexpr int repetitions = 3;

/// The best value of each number: other load of the machine can only make them worse.
void keep_best(Round& best, const Round& next) {
    best.cpu_ns_per_event = std::min(best.cpu_ns_per_event, next.cpu_ns_per_event);
    best.events_per_second = std::max(best.events_per_second, next.events_per_second);
    best.p50_us = std::min(best.p50_us, next.p50_us);
    best.p99_us = std::min(best.p99_us, next.p99_us);
    best.bytes_per_stream = std::min(best.bytes_per_stream, next.bytes_per_stream);
}

void print(const char* name, const Round& round, const char* end) {
    std::printf(
        "\"%s\": {\"events_per_second\": %.0f, \"cpu_ns_per_event\": %.1f, "
        "\"p50_us\": %.1f, \"p99_us\": %.1f, \"bytes_per_stream\": %.0f}%s\n",
        name, round.events_per_second, round.cpu_ns_per_event, round.p50_us, round.p99_us,
        round.bytes_per_stream, end);
}

void allow_sockets() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace
}  // namespace cubepi::bench

// With a name, runs only that round and only once, for profilers.
int main(int argc, char** argv) {
    using namespace cubepi::bench;
    allow_sockets();
    if (argc > 1) {
        for (const Kind& kind : kinds) {
            if (std::string_view(argv[1]) != kind.name) continue;
            print(kind.name, measure(kind.reader, Wire::chat, kind.events, kind.period), "");
        }
        return 0;
    }
    // Alternates, so that both sides of a ratio run under the same conditions.
    Round best[std::size(kinds)];
    for (int repetition = 0; repetition < repetitions; ++repetition) {
        for (std::size_t i = 0; i < std::size(kinds); ++i) {
            const Kind& kind = kinds[i];
            const Round round = measure(kind.reader, Wire::chat, kind.events, kind.period);
            if (repetition == 0) {
                best[i] = round;
            } else {
                keep_best(best[i], round);
            }
        }
    }
    std::printf("{\n");
    for (std::size_t i = 0; i < std::size(kinds); ++i) {
        print(kinds[i].name, best[i], i + 1 < std::size(kinds) ? "," : "");
    }
    std::printf("}\n");
}
