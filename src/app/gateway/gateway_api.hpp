#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace bub {
class Tape;
class GatewayPeers;
struct GatewayPeer;
enum class StopOutcome : std::uint8_t;
struct Envelope;
}  // namespace bub

namespace cubepi::app {

class GatewayInstance;
class LiveAnswers;

/// The process that a GatewayApi operates.
class OperatedGateway {
public:
    /// Returns the instance that serves; a reload replaces it.
    virtual std::shared_ptr<GatewayInstance> instance() const = 0;
    /// Returns "starting", "running", "reloading" or "draining".
    virtual std::string_view state() const = 0;
    /// Unix seconds.
    virtual double started() const = 0;
    /// Applies the changed configuration, and waits until it serves. Throws the reason why the old one still does (D90).
    virtual Task<> replace_instance() = 0;
    /// Begins to drain (B27). Without effect if it is ending: a repeated request does not cut off the turns.
    virtual void begin_drain() = 0;
    /// Returns why other gateways cannot see or operate this one; empty: they can.
    virtual std::string peers_problem() const = 0;

protected:
    ~OperatedGateway() = default;
};

// The arguments and results of the operations. Their members are those of the JSON objects of the skins.

struct NoArguments {};
struct NamedArguments {
    std::string id = {};  ///< of a held message or answer, or of a session
};
struct DrainArguments {
    std::string gateway = {};  ///< by its id or host (ClusterGateway); empty: this one
    bool all = false;          ///< of all that share their messages
};
struct PageArguments {
    std::size_t limit = 1'000;  ///< at most that; less is read as 1
    std::string after = {};     ///< `next` of the page before
};
struct HistoryArguments {
    std::string id = {};      ///< of the session
    std::size_t limit = 50;   ///< at most 200
    std::int64_t before = 0;  ///< `before` of the later page
};
struct QuestionArguments {
    std::string question = {};  ///< as for bub::questions_named()
};
/// `edit` approves a call with other arguments, `always` also allows such calls of its user from now on (GrantedRules).
enum class QuestionAction : std::uint8_t { answer, approve, deny, cancel, edit, always };
struct AnswerArguments {
    std::string question = {};
    QuestionAction action = QuestionAction::answer;
    std::string text = {};                     ///< the answer, or the reason
    std::optional<JsonObject> arguments = {};  ///< edit: all of the call
};

struct LinkArguments {
    bool viewer = false;    ///< of a viewer instead of an operator
    std::string name = {};  ///< of the user, in the log; empty: "console"
};

struct MessageArguments {
    std::string id = {};  ///< of the session
    std::string text = {};
    bool steer = false;    ///< a running turn takes the message, if it can
    std::string key = {};  ///< of the message, which is accepted once; empty: a new one
    std::vector<JsonObject> files = {};  ///< {name, type, content}; see bub::message_files()
    bool typed = false;   ///< by a user: slash commands, and files after `@` (read_typed())
    bool pasted = false;  ///< the beginning of the text was pasted, so that it is not a command
};
struct FileNameArguments {
    std::string id = {};      ///< of the session; empty: a new one
    std::string search = {};  ///< some of the characters of a name, in their order
};
struct StoredArguments {
    std::size_t limit = 50;   ///< at most 200
    std::string after = {};   ///< `next` of the page before
    std::string search = {};  ///< in the ids, titles and first prompts
};
struct UsageArguments {
    std::size_t limit = 20;   ///< at most 200
    std::string search = {};  ///< in the names of counters; "total" is always listed
};
struct ForkArguments {
    std::string id = {};     ///< of the session
    std::string after = {};  ///< the id of a complete run; empty: the last one
};

struct ScheduleArguments {
    std::string channel = {};
    std::string chat = {};
    std::string session = {};  ///< empty: CHANNEL:CHAT
    std::string user = {};     ///< whose rules hold; empty: that of the id `chat`
    std::string text = {};
    std::optional<std::string> at = {};  ///< these are as in bub::ScheduleRequest
    std::optional<std::string> every = {};
    std::optional<std::string> cron = {};
    std::string zone = {};
    bool skip_missed = false;
};

struct Done {
    bool ok = true;
};
struct ListedSchedule {
    std::string id = {};
    std::string session = {};
    std::string channel = {};
    std::string chat = {};
    std::string user = {};
    std::string times = {};           ///< bub::describe()
    std::optional<double> next = {};  ///< Unix seconds
    std::optional<double> last = {};
    std::string next_text = {};  ///< with the time zone
    std::string problem = {};    ///< why the last firing did not happen
    bool configured = false;
    std::string text = {};
};
struct ListedSchedules {
    std::vector<ListedSchedule> schedules = {};
};
struct SentMessage {
    std::string session = {};
    std::string message = {};                  ///< its id
    std::string channel = {};                  ///< that receives the answer
    std::optional<std::string> attached = {};  ///< what `@` has named, for the sender
};
struct TypedCommand {
    std::string name = {};  ///< "/compact"
    std::string help = {};
    bool takes_argument = false;
};
struct TypedCommands {
    std::vector<TypedCommand> commands = {};
};
struct SessionFileNames {
    std::vector<std::string> files = {};  ///< the best matches first; relative to the directory
};
/// A limit of the configuration.
struct GatewayLimit {
    std::string key = {};    ///< "gateway.max_waiting"
    std::string value = {};  ///< with its unit
};
/// The use of a user, a chat or all of them on a day, and its limits.
struct GatewayUse {
    std::string counter = {};  ///< "user:telegram:42", "chat:http:s1", "total"
    std::int64_t messages = 0;
    std::int64_t tokens = 0;
    double cost = 0;                                 ///< USD
    std::optional<std::int64_t> most_messages = {};  ///< absent: no limit
    std::optional<std::int64_t> most_tokens = {};
    std::optional<double> most_cost = {};
};
/// The use that counts toward `gateway.limits`, of all gateways that share their messages.
struct GatewayUsage {
    std::string day = {};               ///< "2026-12-01"
    double ends = 0;                    ///< Unix seconds: then the counters begin at zero
    std::vector<GatewayUse> used = {};  ///< "total" and those with the highest costs first
    bool has_more = false;              ///< further users or chats have used something
};
/// One of the gateways that share their messages by a database (D237).
struct ClusterGateway {
    std::string id = {};  ///< unique
    std::string host = {};
    std::int64_t pid = 0;
    bool here = false;  ///< the one that was asked
    std::string state = {};
    std::string version = {};
    double started = 0;              ///< Unix seconds
    std::string configuration = {};  ///< GatewayStatus::configuration
    std::vector<std::string> channels = {};
    std::size_t running_turns = 0;
    std::size_t waiting_messages = 0;
    std::size_t held = 0;
    std::optional<std::string> problem = {};
};
struct GatewayStatus {
    std::string state = {};
    std::int64_t pid = 0;
    std::string version = {};
    double started = 0;  ///< Unix seconds
    std::string model = {};
    std::string workspaces = {};
    std::vector<std::string> channels = {};
    std::vector<GatewayLimit> limits = {};
    std::optional<GatewayUsage> usage =
        {};  ///< absent: nothing is limited by day, or it cannot be read
    std::optional<std::string> problem = {};  ///< why messages cannot be processed
    std::size_t running_turns = 0;
    std::size_t waiting_messages = 0;
    std::size_t held = 0;
    std::string configuration = {};  ///< a digest of the configuration file, without its comments
    std::optional<std::vector<ClusterGateway>> gateways = {};  ///< all that share their messages
    std::optional<bool> configurations_differ = {};            ///< among them
};
struct BusySession {
    std::string session = {};
    std::optional<std::string> gateway = {};  ///< the host of another gateway that serves it
    bool running = false;
    std::size_t waiting = 0;
    std::size_t steering = 0;
};
struct BusySessions {
    std::vector<BusySession> sessions = {};
    std::optional<std::string> next = {};  ///< for the following page
    /// The gateways that did not answer in time: HOST/ID.
    std::optional<std::vector<std::string>> unanswered = {};
};
struct HistoryCall {
    std::string id = {};
    std::string name = {};
    std::optional<std::string> arguments =
        {};  ///< JSON, its beginning; not for clients of channels
};
struct HistoryMessage {
    std::string role = {};  ///< "user", "assistant", "tool", or "command": an output
    std::optional<std::string> message = {};  ///< the id of the client of its channel
    std::optional<std::string> from = {};     ///< the sender; not for clients of channels
    std::optional<std::string> call = {};     ///< of a tool's result, with its `name`
    std::optional<std::string> name = {};
    std::optional<bool> is_error = {};
    std::optional<bool> truncated = {};
    std::string text = {};
    std::optional<std::string> thinking = {};  ///< its beginning; not for clients of channels
    std::optional<std::vector<HistoryCall>> calls = {};
    /// The numbers of its pictures in the entry; not for clients of channels.
    std::optional<std::vector<std::int64_t>> images = {};
    std::optional<std::string> error = {};
    std::int64_t entry = 0;
    std::string date = {};
};
/// The output of a running turn that is not stored yet.
struct LiveAnswer {
    std::string text = {};
    std::string thinking = {};
    bool truncated = false;               ///< the beginning of a text is missing
    std::vector<HistoryCall> calls = {};  ///< in progress
};
/// A file that a session has sent to the channel console.
struct NoticeFile {
    std::string id = {};
    std::string name = {};
    std::int64_t size = 0;
    bool is_image = false;  ///< that a browser shows
};
/// A message to the channel of a session that no tape has.
struct SessionNotice {
    std::string text = {};
    bool is_error = false;
    std::string date = {};
    std::optional<NoticeFile> file = {};
};
struct SessionHistory {
    std::string session = {};
    std::string state = {};  ///< "running", "waiting" (for an answer), "pending" or "idle"
    std::size_t pending = 0;
    std::vector<JsonObject> questions = {};     ///< as to_json(HitlRequest) returns them
    std::vector<HistoryMessage> messages = {};  ///< oldest first
    std::optional<LiveAnswer> live = {};        ///< after `messages`; not for clients of channels
    std::optional<std::vector<SessionNotice>> notices = {};  ///< of the channel console
    std::optional<std::int64_t> before = {};                 ///< for the earlier page
};
struct StoredSession {
    std::string session = {};
    std::string title = {};        ///< or the first line of its first prompt
    std::string forked_from = {};  ///< a session; empty: none
    std::string state = {};        ///< "running", "pending" or "idle"
    double used = 0;               ///< Unix seconds
    std::int64_t messages = 0;
};
struct StoredSessions {
    std::vector<StoredSession> sessions = {};  ///< most recently used first
    std::optional<std::string> next = {};      ///< for the following page
    /// The names of the databases that cannot be read, whose sessions are missing.
    std::optional<std::vector<std::string>> unread_databases = {};
};
/// The usage of a session by models.
struct SessionSpending {
    std::size_t calls = 0;
    std::int64_t tokens_in = 0;
    std::int64_t tokens_out = 0;
    double cost = 0;           ///< USD, of the calls whose price is known
    std::size_t unpriced = 0;  ///< calls whose price is not known
};
struct NewSession {
    std::string session = {};
};
struct ExportedPage {
    std::string title = {};
    std::string html = {};  ///< complete in one file
};
struct ListedTurn {
    std::string id = {};  ///< of its trace
    std::string status = {};
    std::string facts = {};  ///< one line
    std::string input = {};  ///< its beginning; empty: not recorded
    double start = 0;        ///< Unix seconds
    double seconds = 0;
};
struct SessionTraces {
    std::vector<ListedTurn> traces = {};  ///< newest first, at most 50
};
struct HeldMessage {
    std::string id = {};
    std::string channel = {};
    std::string chat = {};
    std::string date = {};
    std::string text = {};                    ///< its beginning
    std::optional<std::string> gateway = {};  ///< the host of another gateway that holds it
};
struct HeldList {
    std::vector<HeldMessage> messages = {};
    std::vector<HeldMessage> answers = {};
    /// The gateways that did not answer in time: HOST/ID.
    std::optional<std::vector<std::string>> unanswered = {};
    /// The names of the databases that cannot be read, whose messages and answers are missing.
    std::optional<std::vector<std::string>> unread_databases = {};
};
struct GatewayQuestion {
    std::string id = {};
    JsonObject asker = {};    ///< see bub::asker_key
    JsonObject request = {};  ///< as to_json(HitlRequest) returns it
    std::string summary = {};
    std::optional<double> expires_at = {};  ///< Unix seconds
};
struct GatewayQuestions {
    std::vector<GatewayQuestion> questions = {};
    std::optional<std::string> next = {};  ///< for the following page
    /// The names of the databases that cannot be read, whose questions are missing.
    std::optional<std::vector<std::string>> unread_databases = {};
};
struct AnsweredQuestion {
    std::string session = {};  ///< which continues
    /// "accepted": the answer counts. "waiting": the turn of the session has not reached it yet.
    std::string state = {};
};

/// Digests of what the lists of questions and sessions have, also at other gateways that share the messages.
struct ListDigests {
    std::string questions = {};
    std::string sessions = {};
};

struct ConsoleLink {
    std::string url = {};
    std::string name = {};  ///< of the user
    std::string role = {};
    std::int64_t seconds = 0;  ///< for which it is valid
};
struct ConsoleLogin {
    std::string id = {};
    std::string name = {};            ///< of the user
    std::string role = {};            ///< "operator" or "viewer"
    double since = 0;                 ///< Unix seconds
    std::optional<double> used = {};  ///< Unix seconds; nothing: a link that was not opened yet
    bool current = false;             ///< that of the caller
};
struct ConsoleLogins {
    std::vector<ConsoleLogin> logins = {};  ///< oldest first
};

/// The bytes of a file or of a picture.
struct SentFile {
    std::string name = {};
    std::string bytes = {};
};

/// The role of a caller; an operator may also do what a viewer may.
enum class GatewayRole : std::uint8_t { viewer, operator_ };

struct GatewayCaller {
    GatewayRole role = GatewayRole::viewer;
    std::string name = {};  ///< in the log
    std::string address = {};
    std::string login = {};  ///< the id of the login of the web console; empty: another skin
};

/// The operations on a running gateway. The control socket and the routes of `gateway.admin` only translate: both call them through
/// gateway_operations(). An operation throws Error: not_found, invalid_argument, invalid_state. Used on the executor of the gateway.
///
/// status, sessions, held, release, discard, stop and drain are about all gateways that share their messages (D237).
class GatewayApi {
public:
    /// `gateway` must outlive the object and its calls.
    explicit GatewayApi(OperatedGateway& gateway) : gateway_(gateway) {}

    Task<GatewayStatus> status(NoArguments none);
    /// Returns what users and chats have used today. Throws Error(invalid_state) if nothing is limited by day, and what the store throws.
    Task<GatewayUsage> usage(UsageArguments which);
    /// Returns the sessions with a running turn or waiting messages, in the order of their ids.
    Task<BusySessions> sessions(PageArguments page);
    Task<SessionHistory> history(HistoryArguments which);
    /// Returns what the running turns have not stored yet, of the instance that serves, for a stream of events.
    std::shared_ptr<LiveAnswers> live_answers() const;
    /// Reads the beginnings of both lists. A failure has a digest of its own, so that readers of the list see it.
    Task<ListDigests> list_digests();
    Task<HeldList> held(NoArguments none);
    /// Returns the schedules of all sessions. Throws Error(invalid_state) if they are switched off, as the two below do.
    Task<ListedSchedules> schedules(NoArguments none);
    /// Adds one for a chat, as the tool `schedule` does for the chat of its turn.
    Task<ListedSchedule> add_schedule(ScheduleArguments schedule);
    /// Cancels one, also a firing that waits for its turn.
    Task<Done> cancel_schedule(NamedArguments which);
    /// ChannelManager::release_held() and discard_held(); one at a time for an id.
    Task<Done> release(NamedArguments which);
    Task<Done> discard(NamedArguments which);
    /// Ends the running turn of a session.
    Task<Done> stop(NamedArguments which);
    Task<Done> reload(NoArguments none);
    Task<Done> drain(DrainArguments which);
    /// Returns the status of this gateway alone.
    Task<GatewayStatus> status_here();
    /// Ends the turn of the session of `by` if another gateway runs it (ChannelManager::stop_turn()). Returns `idle` if none of those that
    /// have answered does.
    Task<bub::StopOutcome> stop_elsewhere(bub::Envelope by);
    /// Passes a request to the channel http of the gateway with this number, or of all others; HttpSessions::ask_elsewhere().
    Task<std::optional<JsonObject>> ask_channel(JsonObject request, std::string gateway);
    /// Executes a request of another gateway, at this one only. Returns an object with `result`, `error` or `not_here`.
    Task<JsonObject> answer_peer(JsonObject request);
    /// Returns the questions of the sessions in the namespace of the gateway (D100), oldest first. A page may be empty and have a next one.
    Task<GatewayQuestions> questions(PageArguments page);
    Task<GatewayQuestion> question(QuestionArguments which);
    /// Sends the answer to the session as an operator. Its turn, not this call, checks whether the question is still open (D105).
    /// Throws Error(busy) while the turn of another operator's answer to the question has not closed it, and Error(invalid_state)
    /// afterwards; both say who has answered first. Waits for two seconds at most until the turn has read the answer (D242).
    Task<AnsweredQuestion> answer(AnswerArguments which, GatewayCaller caller);
    /// Returns a link that logs a browser in to the web console, once.
    Task<ConsoleLink> console_link(LinkArguments whose);
    /// Returns who is logged in to the web console, and the links that were not opened yet.
    Task<ConsoleLogins> logins(NoArguments none, GatewayCaller caller);
    Task<Done> end_login(NamedArguments which);

    /// Sends a message as an operator: to a new session of the channel console, or to any session that is known. The answer goes to the
    /// session's channel, if it is served (D218).
    Task<SentMessage> begin(MessageArguments first, GatewayCaller caller);
    Task<SentMessage> send(MessageArguments message, GatewayCaller caller);
    /// Returns the slash commands of a typed message.
    Task<TypedCommands> commands(NoArguments none);
    /// Returns files that a typed message in the session may name with `@`.
    Task<SessionFileNames> files(FileNameArguments which);
    /// Returns a page of all sessions, also those that do nothing, without reading a history. A page may be empty and have a next one.
    Task<StoredSessions> stored(StoredArguments page);
    /// Reads the history of a session to add up what its models have used.
    Task<SessionSpending> spending(NamedArguments which);
    /// Continues a session in a new one of the channel console, with the conversation up to a complete run.
    Task<NewSession> fork(ForkArguments which);
    /// Returns the page that `cubepi sessions export --html` writes.
    Task<ExportedPage> export_page(NamedArguments which);
    /// Returns a file that a session has sent to the channel console, if it has not changed since.
    Task<SentFile> sent_file(std::string session, std::string id);
    /// Returns a picture of a message of a session's history (HistoryMessage::images).
    Task<SentFile> image(std::string session, std::int64_t entry, std::int64_t number);
    /// Returns the traces of a session that this gateway has written to files.
    Task<SessionTraces> traces(NamedArguments which);
    /// Returns the page that `cubepi trace view --html` writes.
    Task<ExportedPage> trace(NamedArguments which);

private:
    struct PeerAnswer;

    BusySessions sessions_here(const PageArguments& page) const;
    /// Returns the names and times of the tapes that were written last.
    Task<std::string> newest_sessions();
    Task<HeldList> held_here();
    Task<bool> holds(std::string id);
    /// Throws Error(unavailable) if what has this id may be held, in a database that cannot be used.
    void require_database(const std::string& id) const;
    Task<bool> stop_here(std::string session);
    Task<bub::StopOutcome> stop_turn_here(bub::Envelope by);
    Task<std::optional<JsonObject>> ask_channel_here(JsonObject request);
    Task<JsonObject> perform_here(std::string command, JsonObject arguments);
    Task<bool> is_meant(std::string name);
    /// Which gateways are waited for.
    enum class Asked : std::uint8_t {
        all,
        one_that_has_it,  ///< until one has answered with a result
    };
    /// Returns the gateways that share the messages. Throws Error(unavailable) that names the database that does not answer.
    Task<std::vector<bub::GatewayPeer>> list_peers(std::shared_ptr<bub::GatewayPeers> peers);
    /// Sends a request to other gateways, all of them or those of this name, and returns what each has answered. Throws what list_peers()
    /// throws.
    Task<std::vector<PeerAnswer>> ask_others(JsonObject request, std::string gateway = {},
                                             Asked asked = Asked::all);
    /// Does the same for a list: if the others cannot be asked, they are one that has not answered.
    Task<std::vector<PeerAnswer>> ask_for_list(JsonObject request);
    /// Returns false if the request is about something that no other gateway has.
    Task<bool> act_elsewhere(JsonObject request);
    Task<Done> decide(std::string id, bool release);
    Task<Done> decide_here(std::string id, bool release);
    Task<SentMessage> deliver(MessageArguments message, GatewayCaller caller);
    Task<bool> knows_session(std::string session);
    Task<bool> knows_session_here(std::string session);
    Task<bub::Tape> stored_tape(std::string session);
    Task<> claim_answer(std::string question, std::string channel);
    [[noreturn]] void explain_missing_question(const std::exception_ptr& failure,
                                               const std::string& name) const;

    OperatedGateway& gateway_;
    std::set<std::string> decided_;  ///< ids of calls of decide() in progress
    struct SentAnswer {
        std::string message = {};  ///< its id; empty while it is sent
        std::string text = {};     ///< who has answered; empty: the answer was not used
    };
    std::map<std::string, SentAnswer> answers_;  ///< the last ones, by question
    /// The names that files() has read last.
    struct ListedFiles {
        std::filesystem::path directory = {};
        std::vector<std::string> names = {};
        Clock::time_point read = {};
    };
    std::shared_ptr<const ListedFiles> listed_files_ = {};
};

/// An operation by its name: a row of the table from which both skins are made.
struct GatewayOperation {
    std::string_view name;  ///< `command` of a request to the control socket
    GatewayRole role;       ///< that a caller must have
    std::string_view method;
    std::string_view path;      ///< of the route, whose placeholders are arguments
    std::string_view required;  ///< the argument that must not be empty; empty: none
    /// The members of the result, or else of the arguments, that name what was changed, and how, in the log; empty: none.
    std::string_view target;
    std::string_view action;
    bool takes_files = false;  ///< the arguments may be large
    Task<JsonObject> (*call)(GatewayApi* api, GatewayCaller caller, JsonObject arguments);

    /// Returns true for an operation that changes something, and is therefore logged.
    bool changes() const { return method == "POST"; }
};

std::span<const GatewayOperation> gateway_operations();
/// Returns the operation of this name, which must exist.
const GatewayOperation& gateway_operation(std::string_view name);

/// Calls an operation with JSON arguments. Throws Error(permission_denied) if the caller may not, Error(invalid_argument) or
/// Error(validation) for arguments that it does not accept, and what the operation throws. What changes something is logged.
Task<JsonObject> perform(GatewayApi* api, const GatewayOperation* operation, GatewayCaller caller,
                         JsonObject arguments);

}  // namespace cubepi::app
