// The stream of a running turn for browsers, logins that outlive the gateway, and operators who answer one after the other.

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>

#include "console_browser.hpp"
#include "gateway/console_sessions.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr const char* session_path = "v1/admin/sessions/http%3As1";
constexpr const char* events_path = "v1/admin/sessions/http%3As1/events";
constexpr const char* lists_path = "v1/admin/events";

struct Event {
    std::string name = {};
    std::string id = {};
    JsonObject data = {};

    std::string text() const { return detail::text_member(data, "text"); }
};

/// Reads a stream of events on a thread of its own, until it ends or the reader is destroyed.
class EventReader {
public:
    explicit EventReader(const Browser& browser, const std::string& path = events_path,
                         const std::string& last_id = "") {
        HttpRequest request(
            "GET", "http://127.0.0.1:" + std::to_string(browser.port) + browser.base + path);
        if (!browser.cookie.empty()) request.headers.set("cookie", browser.cookie);
        if (!last_id.empty()) request.headers.set("last-event-id", last_id);
        thread_ = std::thread([this, request = std::move(request)] {
            // As a browser: a gateway whose clock is fast does not wait long for a request.
            do {
                try {
                    run(cancel_on(stop_.get_token(), read(this, request)));
                } catch (...) {
                    // The end of the connection.
                }
            } while (status() == 0 && !stop_.stop_requested());
            const std::lock_guard lock(mutex_);
            has_ended_ = true;
        });
    }
    ~EventReader() {
        stop_.request_stop();
        thread_.join();
    }
    EventReader(const EventReader&) = delete;
    EventReader& operator=(const EventReader&) = delete;

    std::vector<Event> events() const {
        const std::lock_guard lock(mutex_);
        std::vector<Event> all;
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = bytes_.find("\n\n", begin)) != std::string::npos;
             begin = end + 2) {
            Event event;
            const std::string block = bytes_.substr(begin, end - begin);
            for (std::size_t at = 0; at < block.size();) {
                const std::size_t stop = std::min(block.find('\n', at), block.size());
                const std::string line = block.substr(at, stop - at);
                at = stop + 1;
                if (line.starts_with("event: ")) event.name = line.substr(7);
                if (line.starts_with("id: ")) event.id = line.substr(4);
                if (line.starts_with("data: "))
                    event.data = boost::json::parse(line.substr(6)).as_object();
            }
            if (!event.name.empty()) all.push_back(std::move(event));
        }
        return all;
    }
    /// Returns the text that a page shows after these events.
    static std::string shown(const std::vector<Event>& events) {
        std::string text;
        for (const Event& one : events) {
            if (one.name == "live") text = one.text();
            if (one.name == "delta") text += one.text();
        }
        return text;
    }
    std::string shown() const { return shown(events()); }
    std::size_t count(const std::string& name) const {
        std::size_t found = 0;
        for (const Event& one : events()) found += one.name == name ? 1 : 0;
        return found;
    }
    bool has(const std::string& name) const { return count(name) > 0; }
    std::string last_id() const {
        std::string id;
        for (const Event& one : events())
            if (!one.id.empty()) id = one.id;
        return id;
    }
    bool has_ended() const {
        const std::lock_guard lock(mutex_);
        return has_ended_;
    }
    int status() const {
        const std::lock_guard lock(mutex_);
        return status_;
    }

private:
    static Task<> read(EventReader* self, HttpRequest request) {
        HttpClient client;
        HttpResponse response = co_await client.send(std::move(request));
        {
            const std::lock_guard lock(self->mutex_);
            self->status_ = response.status;
        }
        for (bool more = true; more;) {
            std::string part;
            more = co_await response.body->read(part);
            const std::lock_guard lock(self->mutex_);
            self->bytes_ += part;
        }
    }

    std::stop_source stop_;
    mutable std::mutex mutex_;
    std::string bytes_;
    int status_ = 0;
    bool has_ended_ = false;
    std::thread thread_;
};

template <class Condition>
bool eventually(Condition condition) {
    for (int i = 0; i < 6000; ++i) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
}

/// Numbers, so that a part that is missing or doubled is noticed.
std::string counted_words(int count) {
    std::string text = "w0";
    for (int i = 1; i < count; ++i) text += " w" + std::to_string(i);
    return text;
}

std::string answers_with(const std::string& text, int tokens_per_second) {
    return R"({"tokens_per_second": )" + std::to_string(tokens_per_second) + R"(, "answers": [")" +
           text + R"(", "Done.", "Done.", "Done."]})";
}

class ConsoleStream : public ConsoleTest {
protected:
    static bool is_beginning(const std::string& whole, const std::string& part) {
        return !part.empty() && whole.starts_with(part);
    }
    void try_ends(const std::string& path);
};

TEST_F(ConsoleStream, D251_RunningTurn_IsReadAsItComes) {
    const std::string whole = counted_words(3'000);
    start({"--script", home.script(answers_with(whole, 20))});
    const Browser olga = browser_of(false, "olga");
    const Browser vera = browser_of(true, "vera");
    const EventReader idle(olga);
    auto answer = post_later(ports.at("http"), "say a lot", "s1");
    ASSERT_TRUE(eventually([&] { return idle.shown().size() > 20; })) << idle.status();
    EXPECT_TRUE(is_beginning(whole, idle.shown())) << idle.shown();
    EXPECT_TRUE(idle.has("delta"));
    EXPECT_TRUE(idle.has("changed")) << "the message of the user is in the history";

    // In the middle of an answer, a reader begins with all of it.
    auto late = std::make_unique<EventReader>(vera);
    ASSERT_TRUE(eventually([&] { return late->has("delta"); })) << late->status();
    const std::vector<Event> read = late->events();
    EXPECT_TRUE(is_beginning(whole, late->shown())) << late->shown();
    const std::string last = late->last_id();
    const std::string before = EventReader::shown(late->events());
    late.reset();

    // One that was away reads what it has missed, once.
    const EventReader again(vera, events_path, last);
    ASSERT_TRUE(eventually([&] { return again.count("delta") > 3; }));
    EXPECT_FALSE(again.has("live")) << "nothing is read twice";
    EXPECT_TRUE(is_beginning(whole, before + again.shown())) << before << "|" << again.shown();
    // A position that is not one of the answer is not used.
    for (const std::string& wrong :
         {last + "9", std::string("0.0.0"), std::string("x.99999999999999999999.0"),
          last.substr(0, last.find('.')) + ".999999.0", std::string("...")}) {
        const EventReader other(vera, events_path, wrong);
        ASSERT_TRUE(eventually([&] { return other.has("live"); })) << wrong;
        EXPECT_TRUE(is_beginning(whole, other.shown())) << wrong;
    }
    EXPECT_EQ(olga.post(std::string(session_path) + "/stop").status, 200);
    (void)answer.get();
    EXPECT_TRUE(eventually([&] { return idle.shown().empty() && again.shown().empty(); }))
        << "the end of the turn empties the live answer";
    EXPECT_FALSE(idle.has_ended());
}

void ConsoleStream::try_ends(const std::string& path) {
    start();
    const Browser olga = browser_of(false, "olga");
    const Browser vera = browser_of(true, "vera");
    EXPECT_EQ(stranger().get(path).status, 401);
    EXPECT_EQ(olga.call("GET", path, "", {{"sec-fetch-site", "cross-site"}}).status, 403);
    std::vector<std::unique_ptr<EventReader>> streams;
    for (std::size_t i = 0; i < app::ConsoleSessions::max_streams; ++i) {
        streams.push_back(std::make_unique<EventReader>(vera, i == 0 ? lists_path : path));
        ASSERT_TRUE(eventually([&] { return streams.back()->status() == 200; }));
    }
    EXPECT_EQ(vera.get(path).status, 429);
    streams.pop_back();
    EXPECT_TRUE(eventually([&] {
        const auto next = std::make_unique<EventReader>(vera, path);
        return eventually([&] { return next->status() != 0; }) && next->status() == 200;
    })) << "a stream that has ended is not counted";
    const EventReader other(olga, path);
    ASSERT_TRUE(eventually([&] { return other.status() == 200; }));
    EXPECT_EQ(vera.post("logout").status, 200);
    for (const auto& stream : streams) EXPECT_TRUE(eventually([&] { return stream->has_ended(); }));
    EXPECT_FALSE(other.has_ended()) << "of another login";

    configure(R"(, console: {listen: "127.0.0.1:0"}, max_waiting: 6)");
    EXPECT_EQ(olga.post("v1/admin/reload").status, 200);
    EXPECT_TRUE(eventually([&] { return other.has_ended(); }));
    const EventReader next(olga, path);
    ASSERT_TRUE(eventually([&] { return next.status() == 200; }));
    // The lists are followed under the new configuration, too.
    ASSERT_TRUE(eventually([&] { return next.has("sessions"); }));
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
    EXPECT_TRUE(eventually([&] { return next.has_ended(); }));
}

TEST_F(ConsoleStream, D251_Streams_EndWithLoginReloadAndGateway) { try_ends(events_path); }

TEST_F(ConsoleStream, D268_ListStreams_EndWithLoginReloadAndGateway) { try_ends(lists_path); }

TEST_F(ConsoleStream, D251_SlowReader_DoesNotHoldTheTurn) {
    const std::string whole = counted_words(50'000);
    start({"--script", home.script(answers_with(whole, 1'000'000))});
    const Browser olga = browser_of(false, "olga");
    // A client with a small buffer that never reads.
    const int client = ::socket(AF_INET, SOCK_STREAM, 0);
    const int small = 1;
    ::setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(olga.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::string request = "GET /console/" + std::string(events_path) +
                                " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(olga.port) +
                                "\r\nCookie: " + olga.cookie + "\r\n\r\n";
    ASSERT_EQ(::send(client, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    const EventReader reader(olga);
    ASSERT_TRUE(eventually([&] { return reader.status() == 200; }));
    EXPECT_EQ(ask("say a lot").json().at("ok"), true);
    EXPECT_TRUE(eventually([&] { return reader.has("changed") && reader.shown().empty(); }));
    EXPECT_EQ(ask("and again").text(), "Done.");
    ::close(client);
}

TEST_F(ConsoleStream, D252_Restart_KeepsBrowsersLoggedIn) {
    start();
    const Browser olga = browser_of(false, "olga");
    const Browser otto = browser_of(false, "otto");
    const Browser vera = browser_of(true, "vera");
    EXPECT_EQ(otto.post("logout").status, 200);
    const std::string console =
        R"(, console: {listen: "127.0.0.1:)" + std::to_string(olga.port) + "\"}";
    configure(console);
    gateway->kill();
    start();
    EXPECT_EQ(olga.get("session").json().at("name"), "olga");
    EXPECT_EQ(vera.get("session").json().at("role"), "viewer");
    // The page that is open has the token of before.
    EXPECT_EQ(olga.post("v1/admin/sessions/x/stop").status, 409);
    EXPECT_EQ(vera.post("v1/admin/sessions/x/stop").status, 403);
    EXPECT_EQ(otto.get("session").status, 401);
    const EventReader stream(vera);
    ASSERT_TRUE(eventually([&] { return stream.status() == 200; }));
    const CommandResult logins = run_command(home, {"gateway", "logins"});
    const std::string line =
        logins.output.substr(logins.output.rfind('\n', logins.output.find("vera")) + 1);
    EXPECT_EQ(run_command(home, {"gateway", "logout", line.substr(0, line.find('\t'))}).status, 0)
        << logins.output;
    EXPECT_TRUE(eventually([&] { return stream.has_ended(); }));
    gateway->kill();
    start();
    EXPECT_EQ(vera.get("session").status, 401) << "ended before the restart";
    EXPECT_EQ(olga.get("session").status, 200);
    // Without the console, the logins end.
    configure(", console: false");
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
    start();
    configure(console);
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    EXPECT_EQ(olga.get("session").status, 401);
}

constexpr const char* asks_often =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "a.txt", "content": "a"}}]}, {"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c2",
        "name": "write", "arguments": {"path": "b.txt", "content": "b"}}]}, "Done.", "Done."]})";

/// Changes of the lists are announced once in some seconds, of which the gateway has more than there are.
class ConsoleLists : public ConsoleStream {
protected:
    static constexpr int clock_factor = 5;
    void start_fast(std::vector<std::string> flags) {
        start(std::move(flags), {"CUBEPI_TEST_CLOCK=" + std::to_string(clock_factor)});
    }
};

TEST_F(ConsoleLists, D268_Lists_AreAnnouncedWhenTheyChange) {
    start_fast({"--script", home.script(asks_often)});
    const Browser olga = browser_of(false, "olga");
    const Browser vera = browser_of(true, "vera");
    const EventReader lists(vera, lists_path);
    const EventReader session(olga);
    const auto wait_for_change = [&](const std::string& name, const auto& change) {
        const std::size_t before[] = {lists.count(name), session.count(name)};
        change();
        EXPECT_TRUE(eventually([&] {
            return lists.count(name) > before[0] && session.count(name) > before[1];
        })) << name
            << lists.count(name);
    };
    // The first reader is told in any case; the lists are compared from then on.
    ASSERT_TRUE(eventually([&] { return lists.has("questions") && session.status() == 200; }));
    wait_for_change("questions", [&] { (void)ask("write"); });
    EXPECT_TRUE(eventually([&] { return lists.count("sessions") > 1; }));
    std::string answered;
    const auto next_question = [&] {
        std::string id;
        EXPECT_TRUE(eventually([&] {
            const JsonObject open = olga.get("v1/admin/questions").json();
            const JsonArray* const all = detail::array_member(open, "questions");
            if (all && all->size() == 1) id = std::string(all->at(0).at("id").as_string());
            return !id.empty() && id != answered;
        }));
        answered = id;
        return "v1/admin/questions/" + id;
    };
    for (const char* const action : {"/approve", "/cancel"}) {
        const std::string path = next_question() + action;
        wait_for_change("questions", [&] { EXPECT_EQ(olga.post(path).status, 200); });
    }
    for (const Event& one : lists.events()) {
        EXPECT_TRUE(one.data.empty()) << one.name;
        EXPECT_TRUE(one.name == "questions" || one.name == "sessions") << one.name;
    }
}

TEST_F(ConsoleLists, D268_OtherGateway_ChangesAreAnnounced) {
    const GatewayHome other;
    const std::string database = "\ndatabase: \"" + new_database(home) + "\"";
    home.configure(R"({http: {listen: "127.0.0.1:0"}, console: {listen: "127.0.0.1:0"}})" +
                   database);
    other.configure(R"({http: {listen: "127.0.0.1:0"}})" + database);
    start_fast(model.flags());
    GatewayProcess second(other, model.flags());
    const std::uint16_t port = second.wait_until_running();
    const Browser olga = browser_of(false, "olga");
    const EventReader lists(olga, lists_path);
    ASSERT_TRUE(eventually([&] { return lists.has("questions") && lists.has("sessions"); }));
    const std::size_t questions = lists.count("questions");
    const std::size_t sessions = lists.count("sessions");
    EXPECT_EQ(post_later(port, "run touch a", "elsewhere").get().status, 200);
    EXPECT_TRUE(eventually([&] {
        return lists.count("questions") > questions && lists.count("sessions") > sessions;
    }));
    EXPECT_NE(olga.get("v1/admin/questions").body.find("http:elsewhere"), std::string::npos);
}

TEST_F(ConsoleLists, D268_FactsThatChangeAlways_AreAnnouncedRarely) {
    const std::string database = new_database(home);
    home.configure(R"({http: {listen: "127.0.0.1:0"}, console: {listen: "127.0.0.1:0"}})"
                   "\ndatabase: \"" +
                   database + "\"");
    start_fast(model.flags());
    RawPostgres server(database);
    (void)server.query(
        "INSERT INTO bub_delivery_gateways (number, account, host, boot_id, pid, process_start,"
        " lease_until) SELECT nextval('bub_delivery_ids'), account, 'other', 'b', 1, 1,"
        " now() + interval '1 hour' FROM bub_delivery_gateways LIMIT 1");
    const Browser olga = browser_of(false, "olga");
    const auto begin = std::chrono::steady_clock::now();
    const EventReader lists(olga, lists_path);
    ASSERT_TRUE(eventually([&] { return lists.has("sessions"); }));
    const auto change = [&](int number) {
        (void)server.query("UPDATE bub_delivery_gateways SET facts = '{\"running_turns\": " +
                           std::to_string(number) + "}' WHERE host = 'other'");
    };
    int changes = 0;
    EXPECT_TRUE(eventually([&] {
        change(++changes);
        return lists.count("sessions") >= 3;
    }));
    // The first reader is told in any case; then one in five seconds.
    const auto passed = clock_factor * (std::chrono::steady_clock::now() - begin);
    EXPECT_LE(lists.count("sessions"),
              static_cast<std::size_t>(2 + passed / std::chrono::seconds(5)));
    // The last change is announced as well, when the others are over.
    const std::size_t before = lists.count("sessions");
    change(0);
    EXPECT_TRUE(eventually([&] { return lists.count("sessions") > before; })) << changes;
}

TEST_F(ConsoleStream, D242_SecondOperator_ReadsWhoHasAnswered) {
    start({"--script", home.script(asks_often)});
    const Browser olga = browser_of(false, "olga");
    const Browser otto = browser_of(false, "otto");
    const auto question = [&] {
        std::string id;
        EXPECT_TRUE(eventually([&] {
            const JsonObject open = olga.get("v1/admin/questions").json();
            const JsonArray* const all = detail::array_member(open, "questions");
            if (all && all->size() == 1) id = std::string(all->at(0).at("id").as_string());
            return !id.empty();
        }));
        return "v1/admin/questions/" + id;
    };
    (void)ask("write");
    const std::string first = question();
    const Answered approved = olga.post(first + "/approve");
    EXPECT_EQ(approved.status, 200) << approved.body;
    EXPECT_EQ(approved.json().at("state"), "accepted") << approved.body;
    const Answered late = otto.post(first + "/deny", R"({"text": "not this one"})");
    EXPECT_EQ(late.status, 409) << late.body;
    EXPECT_EQ(late.error(), "olga has approved it before");

    // A question that was withdrawn takes no answer.
    ASSERT_TRUE(eventually([&] { return question() != first; }));
    const std::string second = question();
    const Answered withdrawn = otto.post(second + "/cancel");
    EXPECT_EQ(withdrawn.status, 200) << withdrawn.body;
    EXPECT_TRUE(eventually([&] {
        const JsonObject open = olga.get("v1/admin/questions").json();
        const JsonArray* const all = detail::array_member(open, "questions");
        return all && all->empty();
    }));
    const Answered useless = olga.post(second + "/approve");
    EXPECT_EQ(useless.status, 409) << useless.body;
    EXPECT_EQ(useless.error(), "otto has withdrawn it before");
    const Answered unknown = olga.post("v1/admin/questions/unknown/approve");
    EXPECT_EQ(unknown.status, 404) << unknown.body;
    // Nothing was written by the answers that came too late.
    const Answered history = olga.get(session_path);
    EXPECT_EQ(history.body.find("not this one"), std::string::npos) << history.body;
    EXPECT_EQ(ask("and then").text(), "Done.");
}

std::string writes(const std::string& id, const std::string& path) {
    return R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": ")" + id +
           R"(", "name": "write", "arguments": {"path": ")" + path + R"(", "content": "a"}}]})";
}

TEST_F(ConsoleStream, B26_Always_AllowsCallsOfThatUserOnly) {
    start({"--script",
           home.script(R"({"tokens_per_second": 100000, "answers": [)" + writes("c1", "a.txt") +
                       "," + writes("c2", "a.txt") + R"(, "Both are written.", )" +
                       writes("c3", "a.txt") + R"(, "And again.", )" + writes("c4", "a.txt") +
                       R"(, "Done.", "Done.", "Done.", "Done."]})")});
    const Browser olga = browser_of(false, "olga");
    const Browser vera = browser_of(true, "vera");
    const auto questions = [&] {
        const JsonObject open = olga.get("v1/admin/questions").json();
        const JsonArray* const all = detail::array_member(open, "questions");
        return all ? *all : JsonArray();
    };
    const HttpReply asked = ask("write");
    ASSERT_EQ(questions().size(), 1u) << asked.body;
    const Json question = questions().at(0);
    const Json& details = question.at("request").at("payload").at("details");
    EXPECT_NE(boost::json::serialize(details).find("\"rule\":\"write"), std::string::npos)
        << boost::json::serialize(details);
    const std::string path = "v1/admin/questions/" + std::string(question.at("id").as_string());
    EXPECT_EQ(vera.post(path + "/always").status, 403);
    const Answered always = olga.post(path + "/always");
    EXPECT_EQ(always.status, 200) << always.body;
    // The same call of the turn that continues, and of a later one, run unasked.
    ASSERT_TRUE(eventually([&] {
        return olga.get(session_path).body.find("Both are written.") != std::string::npos;
    })) << olga.get(session_path).body;
    EXPECT_EQ(ask("again").text(), "And again.");
    EXPECT_TRUE(questions().empty());
    // Another chat has rules of its own.
    (void)post_later(ports.at("http"), "write here", "s2").get();
    ASSERT_EQ(questions().size(), 1u);
    const std::string other =
        "v1/admin/questions/" + std::string(questions().at(0).at("id").as_string());
    EXPECT_EQ(olga.post(other + "/approve").status, 200);
    EXPECT_TRUE(eventually([&] { return questions().empty(); }));
    // The operator who comes too late adds no rule.
    EXPECT_EQ(olga.post(other + "/always").status, 409);
}

/// A PNG of one pixel, and what pretends to be one.
constexpr const char* pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+"
    "M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
constexpr const char* svg =
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4=";

std::string sends(const std::string& id, const std::string& path) {
    return R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": ")" + id +
           R"(", "name": "send_file", "arguments": {"path": ")" + path + R"("}}]})";
}

TEST_F(ConsoleStream, D251_SentFiles_AreShownOrDownloaded) {
    configure(
        R"(, console: {listen: "127.0.0.1:0"}, rules: [{channel: console, allow: ["send_file: *"]}])");
    start({"--script",
           home.script(R"({"tokens_per_second": 100000, "answers": [)" +
                       sends("c1", "attachments/dot.png") + "," +
                       sends("c2", "attachments/evil.png") + "," + sends("c3", "../../secret") +
                       R"(, "Done.", "Done.", "Done."]})")});
    const Browser olga = browser_of(false, "olga");
    const Browser vera = browser_of(true, "vera");
    const auto file = [](const char* name, const char* type, const char* content) {
        return JsonObject{{"name", name}, {"type", type}, {"content", content}};
    };
    const JsonObject message{
        {"text", "send them back"},
        {"files", JsonArray{file("dot.png", "application/octet-stream", pixel),
                            file("evil.png", "application/octet-stream", svg)}}};
    const Answered begun = olga.post("v1/admin/sessions", boost::json::serialize(message));
    ASSERT_EQ(begun.status, 200) << begun.body;
    std::string session = detail::text_member(begun.json(), "session");
    const std::string path = "v1/admin/sessions/" + session.replace(session.find(':'), 1, "%3A");
    JsonArray files;
    ASSERT_TRUE(eventually([&] {
        files.clear();
        const JsonObject history = olga.get(path).json();
        const JsonArray* const notices = detail::array_member(history, "notices");
        if (!notices) return false;
        for (const Json& one : *notices)
            if (const JsonObject* const sent = detail::object_member(one.as_object(), "file"))
                files.emplace_back(*sent);
        return files.size() == 2 && detail::text_member(history, "state") == "idle";
    })) << olga.get(path).body;
    const JsonObject& picture = files.at(0).as_object();
    EXPECT_EQ(picture.at("name"), "dot.png");
    EXPECT_EQ(picture.at("is_image"), true);
    const std::string place = path + "/files/" + detail::text_member(picture, "id");
    const Answered shown = vera.get(place);
    EXPECT_EQ(shown.status, 200);
    EXPECT_EQ(shown.headers.get("content-type"), "image/png");
    EXPECT_TRUE(
        shown.headers.get("content-disposition").starts_with("inline; filename=\"dot.png\""));
    EXPECT_EQ(shown.headers.get("x-content-type-options"), "nosniff");
    EXPECT_TRUE(shown.headers.get("content-security-policy").find("sandbox") != std::string::npos);
    EXPECT_TRUE(shown.body.starts_with("\x89PNG"));
    // A name says nothing about what a browser would run.
    const JsonObject& other = files.at(1).as_object();
    EXPECT_EQ(other.at("is_image"), false);
    const Answered loaded = vera.get(path + "/files/" + detail::text_member(other, "id"));
    EXPECT_EQ(loaded.headers.get("content-type"), "application/octet-stream");
    EXPECT_TRUE(loaded.headers.get("content-disposition").starts_with("attachment;"));
    EXPECT_EQ(loaded.headers.get("x-content-type-options"), "nosniff");

    EXPECT_EQ(stranger().get(place).status, 401);
    EXPECT_EQ(olga.call("GET", place, "", {{"sec-fetch-site", "same-site"}}).status, 403);
    EXPECT_EQ(olga.get(path + "/files/unknown").status, 404);
    EXPECT_EQ(
        olga.get("v1/admin/sessions/other/files/" + detail::text_member(picture, "id")).status,
        404);
    for (const char* wrong : {"/images/1/99", "/images/-1/0", "/images/x/0", "/images/1/-1",
                              "/images/99999999999999999999/0"})
        EXPECT_EQ(olga.get(path + wrong).status, 404) << wrong;
}

TEST_F(ConsoleStream, D251_PicturesOfTheHistory_AreShown) {
    start({"--script", home.script(answers_with("I see.", 100'000))});
    const Browser olga = browser_of(false, "olga");
    const JsonObject message{
        {"text", "look"},
        {"files",
         JsonArray{JsonObject{{"name", "dot.png"}, {"type", "image/png"}, {"content", pixel}}}}};
    const Answered begun = olga.post("v1/admin/sessions", boost::json::serialize(message));
    ASSERT_EQ(begun.status, 200) << begun.body;
    std::string session = detail::text_member(begun.json(), "session");
    const std::string path = "v1/admin/sessions/" + session.replace(session.find(':'), 1, "%3A");
    std::string image;
    EXPECT_TRUE(eventually([&] {
        const JsonObject history = olga.get(path).json();
        const JsonArray* const messages = detail::array_member(history, "messages");
        for (const Json& one : messages ? *messages : JsonArray()) {
            const JsonArray* const images = detail::array_member(one.as_object(), "images");
            if (images && images->size() == 1)
                image = path + "/images/" + boost::json::serialize(one.at("entry")) + "/" +
                        boost::json::serialize(images->at(0));
        }
        return !image.empty();
    })) << olga.get(path).body;
    const Answered shown = olga.get(image);
    EXPECT_EQ(shown.status, 200) << shown.body;
    EXPECT_EQ(shown.headers.get("content-type"), "image/png");
    EXPECT_TRUE(shown.body.starts_with("\x89PNG"));
    EXPECT_EQ(stranger().get(image).status, 401);
}

}  // namespace
}  // namespace cubepi::gateway_tests
