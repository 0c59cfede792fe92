#include "console_sessions.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>

#include <openssl/rand.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "../config/paths.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t id_size = 12;

std::string new_secret() {
    std::array<unsigned char, 32> bytes = {};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        throw Error(ErrorCode::unsupported, "OpenSSL has no random bytes");
    return detail::hex_of(std::string(bytes.begin(), bytes.end()));
}

/// The token of a session needs no record: the browser has the secret.
std::string csrf_token_of(std::string_view secret) {
    return detail::sha256_hex("csrf " + std::string(secret));
}

const char* role_text(GatewayRole role) {
    return role == GatewayRole::operator_ ? "operator" : "viewer";
}

constexpr std::int64_t file_version = 1;
constexpr std::size_t max_file_bytes = std::size_t{1} << 20U;
constexpr std::size_t longest_name = 1'024;
/// The use of a session is recorded after this time.
constexpr double use_interval = 300;

Error file_error(const std::filesystem::path& file, const std::string& reason) {
    return Error(ErrorCode::storage, file.string() + ": " + reason);
}

/// Returns an empty text if the file does not exist.
std::string read_file(const std::filesystem::path& file) {
    const detail::UniqueFd fd = detail::open_file(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (!fd && errno == ENOENT) return {};
    struct stat status = {};
    if (!fd || ::fstat(fd.get(), &status) != 0) throw file_error(file, detail::errno_text(errno));
    const std::string_view kind = detail::kind_if_not_regular(status.st_mode);
    if (!kind.empty()) throw file_error(file, "is " + std::string(kind));
    std::string text(max_file_bytes + 1, '\0');
    const std::optional<std::size_t> size = detail::read_at(fd.get(), 0, text.data(), text.size());
    if (!size) throw file_error(file, detail::errno_text(errno));
    if (*size > max_file_bytes) throw file_error(file, "is too large");
    text.resize(*size);
    return text;
}

void write_file(const std::filesystem::path& file, const std::string& text) {
    make_private_directory(file, "BUB_HOME");
    std::string fresh = file.string() + ".XXXXXX";
    detail::UniqueFd fd(::mkostemp(fresh.data(), O_CLOEXEC));  // 0600
    detail::ReplacementFile replacement(std::move(fd), fresh);
    const bool is_done = replacement && detail::write_all(replacement.get(), text) &&
                         detail::sync_file(replacement.get()) && replacement.replace(file);
    if (!is_done) throw file_error(file, "cannot be written: " + detail::errno_text(errno));
    // A login that was ended must not come back after a power failure.
    const detail::UniqueFd directory =
        detail::open_file(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY);
    if (directory) (void)detail::sync_file(directory.get());
}

bool is_hexadecimal(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

double number_member(const JsonObject& object, std::string_view key) {
    const Json* const value = object.if_contains(key);
    boost::system::error_code failed;
    const double number = value ? value->to_number<double>(failed) : 0;
    return failed ? 0 : number;
}

std::chrono::nanoseconds seconds_of(double seconds, std::chrono::hours most) {
    const double limit = std::chrono::duration<double>(most).count();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(std::clamp(seconds, 0.0, limit)));
}

}  // namespace

ConsoleSessions::ConsoleSessions(std::shared_ptr<const Runtime> runtime, std::filesystem::path file)
    : runtime_(std::move(runtime)), clock_(runtime_->clock), file_(std::move(file)) {}

std::string ConsoleSessions::file_text() const {
    const double offset = unix_now();
    const Clock::time_point now = clock_->now();
    JsonArray all;
    for (const auto& [digest, entry] : sessions_) {
        const double left = std::chrono::duration<double>(entry.end - now).count();
        JsonObject one{{"key", digest},
                       {"id", entry.session.id},
                       {"role", role_text(entry.session.role)},
                       {"name", entry.session.name},
                       {"since", entry.since},
                       {"used", entry.used},
                       {"ends", offset + left}};
        all.push_back(std::move(one));
    }
    JsonObject file{{"version", file_version}, {"logins", std::move(all)}};
    return json_text(file);
}

/// The times of a file are dates of the system. If its date was set back, no session lasts longer than a new one would.
void ConsoleSessions::read_text(const std::string& text) {
    const Json json = parse_json(text);
    const JsonObject* const file = json.if_object();
    const JsonArray* const all = file ? detail::array_member(*file, "logins") : nullptr;
    if (!all || detail::integer_member(*file, "version") != file_version)
        throw Error(ErrorCode::parse, "it has no logins of this version");
    const double wall = unix_now();
    for (const Json& item : *all) {
        const JsonObject* const one = item.if_object();
        if (!one || sessions_.size() == max_sessions) break;
        const std::string key = detail::text_member(*one, "key");
        const std::string role = detail::text_member(*one, "role");
        Entry entry;
        entry.session.id = detail::text_member(*one, "id");
        entry.session.name = detail::text_member(*one, "name");
        const bool is_operator = role == role_text(GatewayRole::operator_);
        const bool is_valid =
            key.size() == 64 && is_hexadecimal(key) && entry.session.id.size() == id_size &&
            is_hexadecimal(entry.session.id) && entry.session.name.size() <= longest_name &&
            is_utf8(entry.session.name) && (is_operator || role == role_text(GatewayRole::viewer));
        if (!is_valid) throw Error(ErrorCode::parse, "a login is not one");
        if (is_operator) entry.session.role = GatewayRole::operator_;
        entry.since = number_member(*one, "since");
        entry.used = std::max(number_member(*one, "used"), 1.0);
        entry.recorded = entry.used;
        const double idle =
            entry.used + std::chrono::duration<double>(idle_lifetime).count() - wall;
        const Clock::time_point now = clock_->now();
        entry.idle_end = now + seconds_of(idle, idle_lifetime);
        entry.end = now + seconds_of(number_member(*one, "ends") - wall, longest_lifetime);
        sessions_.emplace(key, std::move(entry));
    }
    erase_ended(sessions_);
}

Task<> ConsoleSessions::load() {
    if (file_.empty()) co_return;
    auto work = [file = file_] { return read_file(file); };
    const std::string text = co_await offload(*runtime_->workers, std::move(work));
    if (text.empty()) co_return;
    try {
        read_text(text);
    } catch (const Error& error) {
        sessions_.clear();
        throw file_error(file_, std::string("is damaged: ") + error.what());
    }
}

Task<> ConsoleSessions::save() {
    const std::uint64_t wanted = version_;
    while (!idle_.is_set()) co_await idle_.wait();
    if (saved_ >= wanted || file_.empty()) co_return;
    idle_.reset();
    const std::uint64_t version = version_;
    for (auto& one : sessions_) one.second.recorded = one.second.used;
    auto work = [file = file_, text = file_text()] { write_file(file, text); };
    // The thread continues if the caller is cancelled, and a later write must follow it.
    co_await shield();
    Task<> writing = offload(*runtime_->workers, std::move(work));
    const Outcome<> written = co_await outcome_of(std::move(writing));
    if (written) saved_ = version;
    idle_.set();
    co_await unshield();
    written.rethrow();
}

void ConsoleSessions::erase_ended(Entries& entries) const {
    const Clock::time_point now = clock_->now();
    std::erase_if(entries, [now](const auto& one) { return one.second.ends() <= now; });
}

std::string ConsoleSessions::insert(Entries& entries, std::size_t most, Entry entry) const {
    erase_ended(entries);
    while (entries.size() >= most) {
        entries.erase(std::min_element(
            entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.second.ends() < b.second.ends(); }));
    }
    std::string secret = new_secret();
    entry.session.csrf_token.clear();
    entry.session.id = new_secret().substr(0, id_size);
    entry.since = unix_now();
    entries.emplace(detail::sha256_hex(secret), std::move(entry));
    return secret;
}

double ConsoleSessions::unix_now() const {
    return std::chrono::duration<double>(clock_->wall().time_since_epoch()).count();
}

std::string ConsoleSessions::make_link(GatewayRole role, std::string name) {
    Entry link;
    link.session.role = role;
    link.session.name = std::move(name);
    link.end = clock_->now() + link_lifetime;
    link.idle_end = link.end;
    return insert(links_, max_links, std::move(link));
}

std::optional<std::string> ConsoleSessions::log_in(std::string_view link) {
    erase_ended(links_);
    const auto found = links_.find(detail::sha256_hex(link));
    if (found == links_.end()) return std::nullopt;
    Entry session;
    session.session = std::move(found->second.session);
    links_.erase(found);
    session.end = clock_->now() + longest_lifetime;
    session.idle_end = clock_->now() + idle_lifetime;
    session.used = unix_now();
    session.recorded = session.used;
    ++version_;
    return insert(sessions_, max_sessions, std::move(session));
}

std::optional<ConsoleSession> ConsoleSessions::find(std::string_view secret) {
    erase_ended(sessions_);
    const auto found = sessions_.find(detail::sha256_hex(secret));
    if (found == sessions_.end()) return std::nullopt;
    Entry& entry = found->second;
    entry.idle_end = clock_->now() + idle_lifetime;
    entry.used = unix_now();
    if (entry.used - entry.recorded >= use_interval) {
        entry.recorded = entry.used;
        ++version_;
    }
    ConsoleSession session = entry.session;
    session.csrf_token = csrf_token_of(secret);
    return session;
}

bool ConsoleSessions::has(std::string_view id) {
    erase_ended(sessions_);
    return std::any_of(sessions_.begin(), sessions_.end(),
                       [id](const auto& one) { return one.second.session.id == id; });
}

std::optional<ConsoleStream> ConsoleSessions::open_stream(std::string_view secret) {
    erase_ended(sessions_);
    const auto found = sessions_.find(detail::sha256_hex(secret));
    if (found == sessions_.end()) return std::nullopt;
    // Each stream owns the source, too.
    const auto& source = found->second.streams.source;
    if (static_cast<std::size_t>(source.use_count()) > max_streams) return std::nullopt;
    ConsoleStream stream;
    stream.login = source;
    stream.ended = source->get_token();
    return stream;
}

void ConsoleSessions::log_out(std::string_view secret) {
    if (sessions_.erase(detail::sha256_hex(secret)) > 0) ++version_;
}

std::vector<ConsoleLogin> ConsoleSessions::logins() const {
    const Clock::time_point now = clock_->now();
    std::vector<ConsoleLogin> all;
    for (const Entries* entries : {&links_, &sessions_}) {
        for (const auto& [digest, entry] : *entries) {
            if (entry.ends() <= now) continue;
            ConsoleLogin login;
            login.id = entry.session.id;
            login.name = entry.session.name;
            login.role = role_text(entry.session.role);
            login.since = entry.since;
            if (entry.used > 0) login.used = entry.used;
            all.push_back(std::move(login));
        }
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return std::tie(a.since, a.id) < std::tie(b.since, b.id);
    });
    return all;
}

bool ConsoleSessions::end(std::string_view id) {
    const auto has_id = [id](const auto& one) { return one.second.session.id == id; };
    const std::size_t ended = std::erase_if(sessions_, has_id);
    if (ended > 0) ++version_;
    return std::erase_if(links_, has_id) + ended > 0;
}

void ConsoleSessions::end_all() {
    links_.clear();
    if (!sessions_.empty()) ++version_;
    sessions_.clear();
}

}  // namespace cubepi::app
