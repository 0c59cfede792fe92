#include "gateway_settings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include <bub/close_matches.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/net/http_server.hpp>

#include "../channels/channel_kinds.hpp"
#include "config_file.hpp"
#include "paths.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t most_threads = 256;

/// The keys of a mapping, which is at `path` of the configuration file.
struct Keys {
    std::string_view path;
    std::vector<std::string_view> names;
};

/// The keys of `gateway`.
Keys gateway_keys() {
    Keys keys{"gateway",
              {"channels",
               "root",
               "shared_workspace",
               "tape_namespace",
               "notify_database",
               "drain_timeout",
               "retry_limit",
               "max_waiting",
               "threads",
               "stream",
               "show_error_details",
               "question_timeout",
               "files",
               "rules",
               "approvers",
               "schedule",
               "time_zone",
               "limits",
               "status",
               "admin",
               "console",
               "listen",
               "base_path",
               "allowed_hosts",
               "trusted_proxies"}};
    for (const ChannelKind* kind : channel_kinds()) keys.names.push_back(kind->name);
    return keys;
}

const Keys rule_keys{"gateway.rules", {"channel", "chat", "user", "allow", "refuse"}};
const Keys approver_keys{"gateway.approvers", {"channel", "user"}};
const Keys schedule_keys{"gateway.schedule",
                         {"name", "channel", "chat", "session", "user", "text", "at", "every",
                          "cron", "zone", "missed"}};
const Keys limits_keys{"gateway.limits", {"per_user", "per_chat", "total", "exempt_operators"}};
/// Of each of the first three.
const Keys limit_keys{"gateway.limits.per_user", {"messages", "tokens", "money"}};
const Keys files_keys{"gateway.files", {"max_file_mb", "max_files", "max_total_mb"}};
const Keys admin_keys{"gateway.admin", {"listen", "viewer_token_env", "operator_token_env"}};
const Keys console_keys{"gateway.console", {"listen"}};

/// A mapping of the configuration, whose members are read by type. Errors name the path of the key.
class Mapping {
public:
    /// `value` must outlive the object; null: an empty mapping.
    Mapping(const Json* value, std::string path) : path_(std::move(path)) {
        if (!value || value->is_null()) return;
        if (!value->is_object()) refuse(path_, "a mapping");
        object_ = &value->get_object();
    }

    void allow_only(const Keys& keys) const {
        if (!object_) return;
        for (const auto& member : *object_) {
            const std::string_view key = member.key();
            if (std::find(keys.names.begin(), keys.names.end(), key) != keys.names.end()) continue;
            std::string known;
            for (const std::string_view name : keys.names)
                known += (known.empty() ? "" : ", ") + std::string(name);
            const std::vector<std::string> close =
                bub::close_matches(key, {keys.names.begin(), keys.names.end()});
            throw Error(ErrorCode::parse,
                        config_path().string() + ": unknown key '" + below(std::string(key)) +
                            (close.empty() ? "'" : "' (did you mean '" + close.front() + "'?)") +
                            "; the keys of " + path_ + " are " + known);
        }
    }

    bool has_flag(const std::string& key) const { return has(key) && at(key).is_bool(); }
    bool has(std::string_view key) const { return object_ && object_->contains(key); }
    std::string below(const std::string& key) const { return path_ + "." + key; }
    Mapping mapping(const std::string& key) const { return Mapping(&at(key), below(key)); }

    void read(const std::string& key, std::string& value) const {
        if (has(key)) value = text(at(key), below(key), "text");
    }
    void read(const std::string& key, bool& value) const {
        if (!has(key)) return;
        if (!at(key).is_bool()) refuse(below(key), "true or false");
        value = at(key).get_bool();
    }
    /// A whole number.
    void read(const std::string& key, std::size_t& value, std::int64_t least = 1) const {
        if (!has(key)) return;
        const Json& given = at(key);
        if (!given.is_int64() || given.get_int64() < least || given.get_int64() > 1'000'000)
            refuse(below(key), "a whole number from " + std::to_string(least) + " to 1000000");
        value = static_cast<std::size_t>(given.get_int64());
    }
    /// A whole number of at most a million millions.
    void read(const std::string& key, std::optional<std::int64_t>& value) const {
        constexpr std::int64_t most = 1'000'000'000'000;
        if (!has(key)) return;
        const std::int64_t* const number = at(key).if_int64();
        if (!number || *number < 1 || *number > most)
            refuse(below(key), "a whole number from 1 to " + std::to_string(most));
        value = *number;
    }
    /// An amount of USD; `micros` are millionths.
    void read_money(const std::string& key, std::optional<std::int64_t>& micros) const {
        if (!has(key)) return;
        const double usd = at(key).is_number() ? at(key).to_number<double>() : 0.0;
        if (!(usd >= 1e-6 && usd <= 1e9))
            refuse(below(key), "an amount of USD from 0.000001 to 1000000000");
        micros = std::llround(usd * 1e6);
    }
    /// Ids may be written as numbers.
    void read(const std::string& key, std::vector<std::string>& value,
              std::string_view what) const {
        if (!has(key)) return;
        const std::string expected = "a list of " + std::string(what);
        if (!at(key).is_array()) refuse(below(key), expected);
        value.clear();
        for (const Json& one : at(key).get_array())
            value.push_back(text(one, below(key), expected));
    }
    template <class Read>
    void each(const std::string& key, const char* what, Read read) const {
        if (!has(key)) return;
        if (!at(key).is_array()) refuse(below(key), std::string("a list of ") + what);
        std::size_t number = 0;
        for (const Json& one : at(key).get_array())
            read(Mapping(&one, below(key) + "[" + std::to_string(number++) + "]"));
    }

    [[noreturn]] static void refuse(const std::string& key, const std::string& expected) {
        throw Error(ErrorCode::parse, config_path().string() + ": " + key + " must be " + expected);
    }

private:
    const Json& at(const std::string& key) const {
        static const Json none;
        const Json* found = object_ ? object_->if_contains(key) : nullptr;
        return found ? *found : none;
    }
    static std::string text(const Json& value, const std::string& key,
                            const std::string& expected) {
        if (value.is_string()) return std::string(value.get_string());
        if (value.is_int64()) return std::to_string(value.get_int64());
        refuse(key, expected);
    }

    std::string path_;
    const JsonObject* object_ = nullptr;
};

std::optional<ListenAddress> parse_address(const std::string& text) {
    ListenAddress address;
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    const auto port =
        detail::parsed_number<std::uint16_t>(std::string_view(text).substr(colon + 1));
    if (!port) return std::nullopt;
    address.port = *port;
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']'))
        address.host = address.host.substr(1, address.host.size() - 2);
    return address;
}

/// An empty text leaves the address as it is.
void read_address(const Mapping& mapping, const std::string& key, ListenAddress& address) {
    std::string text;
    mapping.read(key, text);
    if (text.empty()) return;
    const std::optional<ListenAddress> parsed = parse_address(text);
    if (!parsed)
        Mapping::refuse(mapping.below(key),
                        "an address and a port, such as 127.0.0.1:8642 or [::1]:8642");
    address = *parsed;
}

/// Returns `absent` if the key is absent.
std::optional<ListenAddress> read_address(const Mapping& mapping, const std::string& key,
                                          std::optional<ListenAddress> absent) {
    if (!mapping.has(key)) return absent;
    ListenAddress address;
    read_address(mapping, key, address);
    return address;
}

/// Returns gateway.listen.
std::optional<ListenAddress> read_common_address(const Mapping& mapping) {
    std::optional<ListenAddress> address = read_address(mapping, "listen", std::nullopt);
    if (address) address->is_common = true;
    return address;
}

/// How the servers are reached.
void read_access(const Mapping& mapping, GatewaySettings& settings) {
    settings.listen = read_common_address(mapping);
    mapping.read("base_path", settings.base_path);
    const std::string& base = settings.base_path;
    const bool is_path = base.starts_with('/') && !base.ends_with('/') &&
                         base.find_first_of("%?#{} ") == std::string::npos &&
                         (base + "/").find("/../") == std::string::npos &&
                         (base + "/").find("/./") == std::string::npos;
    if (!base.empty() && !is_path)
        Mapping::refuse("gateway.base_path",
                        "a path that begins with / and does not end with it, such as /agents");
    constexpr const char* names = "host names, such as agents.example.org";
    mapping.read("allowed_hosts", settings.allowed_hosts, names);
    for (const std::string& host : settings.allowed_hosts)
        if (host.empty() || host.find_first_of("/*@, ") != std::string::npos)
            Mapping::refuse("gateway.allowed_hosts", std::string("a list of ") + names);
    constexpr const char* ranges = "addresses and ranges, such as 10.0.0.7 and 10.0.0.0/8";
    mapping.read("trusted_proxies", settings.trusted_proxies, ranges);
    try {
        check_address_ranges(settings.trusted_proxies);
    } catch (const Error&) {
        Mapping::refuse("gateway.trusted_proxies", std::string("a list of ") + ranges);
    }
}

SenderRule read_rule(const Mapping& mapping) {
    mapping.allow_only(rule_keys);
    SenderRule rule;
    mapping.read("channel", rule.channel);
    mapping.read("chat", rule.chat);
    mapping.read("user", rule.user);
    mapping.read("allow", rule.allow, "rules");
    mapping.read("refuse", rule.refuse, "names of tools");
    return rule;
}

Approver read_approver(const Mapping& mapping) {
    mapping.allow_only(approver_keys);
    Approver approver;
    mapping.read("channel", approver.channel);
    mapping.read("user", approver.user);
    if (approver.user.empty() || approver.channel.empty())
        Mapping::refuse(mapping.below("user"), "a user of a channel: {channel: NAME, user: ID}");
    return approver;
}

void read_optional(const Mapping& mapping, const std::string& key,
                   std::optional<std::string>& value) {
    if (mapping.has(key)) mapping.read(key, value.emplace());
}

/// `zone`: gateway.time_zone.
bub::UsageLimit read_usage_limit(const Mapping& mapping) {
    mapping.allow_only(limit_keys);
    bub::UsageLimit limit;
    mapping.read("messages", limit.messages);
    mapping.read("tokens", limit.tokens);
    mapping.read_money("money", limit.micros);
    return limit;
}

bub::UsageLimitOptions read_limits(const Mapping& mapping) {
    mapping.allow_only(limits_keys);
    bub::UsageLimitOptions limits;
    limits.per_user = read_usage_limit(mapping.mapping("per_user"));
    limits.per_chat = read_usage_limit(mapping.mapping("per_chat"));
    limits.total = read_usage_limit(mapping.mapping("total"));
    mapping.read("exempt_operators", limits.exempts_operators);
    return limits;
}

/// Reads times at a key, of which `check` may throw an Error, too.
bub::ScheduleTimes read_times(
    const std::string& key, const bub::ScheduleRequest& request,
    const std::function<void()>& check = [] {}) {
    try {
        check();
        return bub::schedule_times(request, 0);
    } catch (const Error& error) {
        // That it has no time zones is the fault of the machine.
        const bool is_unsupported = error.code() == ErrorCode::unsupported;
        throw Error(is_unsupported ? ErrorCode::unsupported : ErrorCode::parse,
                    config_path().string() + ": " + key + ": " + error.what());
    }
}

bub::Schedule read_schedule(const Mapping& mapping, const std::string& zone, TimeZones zones) {
    mapping.allow_only(schedule_keys);
    bub::Schedule schedule;
    schedule.configured = true;
    std::string name;
    mapping.read("name", name);
    schedule.id = "config." + name;
    mapping.read("text", schedule.text);
    bub::Envelope origin;
    std::string user;
    mapping.read("channel", origin.channel.emplace());
    mapping.read("chat", origin.chat_id.emplace());
    mapping.read("user", user);
    for (const auto& [key, value] :
         {std::pair("name", &name), std::pair("channel", &*origin.channel),
          std::pair("chat", &*origin.chat_id), std::pair("user", &user)})
        if (value->empty())
            Mapping::refuse(mapping.below(key),
                            "a text that is not empty; a schedule has {name, channel, chat, user, "
                            "text} and one of at, every and cron");
    // The rules for this user hold (B26).
    origin.context["sender_id"] = user;
    schedule.origin = bub::schedule_origin(origin);
    schedule.session = bub::default_session(origin);
    mapping.read("session", schedule.session);
    std::string missed = "once";
    mapping.read("missed", missed);
    if (missed != "once" && missed != "skip")
        Mapping::refuse(mapping.below("missed"), "once or skip");
    if (missed == "skip") schedule.missed = bub::MissedFirings::skip;
    bub::ScheduleRequest request;
    request.is_configured = true;
    request.zone = zone;
    read_optional(mapping, "at", request.at);
    read_optional(mapping, "every", request.every);
    read_optional(mapping, "cron", request.cron);
    mapping.read("zone", request.zone);
    // It needs no database.
    if (zones == TimeZones::ignored) request.zone = "UTC";
    // The intervals of all gateways begin at the same instants.
    schedule.times =
        read_times(mapping.below(name), request, [&schedule] { bub::check_schedule(schedule); });
    return schedule;
}

void read_file(const Mapping& mapping, const std::string& key, std::filesystem::path& file) {
    std::string text;
    mapping.read(key, text);
    if (text.empty()) return;
    if (!text.starts_with('/') && !text.starts_with("~/"))
        Mapping::refuse(mapping.below(key), "a file whose path begins with / or ~/");
    file = expand_home(text);
}

template <class Value>
Json read_or(const Mapping& mapping, const std::string& name, Value value) {
    mapping.read(name, value);
    return Json(std::move(value));
}

/// `common`: gateway.listen.
Json read_value(const Mapping& mapping, const std::string& name, const ChannelKey& key,
                const std::optional<ListenAddress>& common) {
    std::string default_value(key.default_value);
    switch (key.type) {
        case KeyType::flag: return read_or(mapping, name, default_value == "true");
        case KeyType::number: return read_or(mapping, name, std::size_t{std::stoul(default_value)});
        case KeyType::list: {
            std::vector<std::string> value;
            mapping.read(name, value, key.members);
            return JsonArray(value.begin(), value.end());
        }
        case KeyType::address: {
            ListenAddress value = common ? *common : parse_address(default_value).value();
            read_address(mapping, name, value);
            return JsonObject{{"text", value.text()}, {"is_common", value.is_common}};
        }
        case KeyType::file: {
            std::filesystem::path value;
            read_file(mapping, name, value);
            return Json(value.string());
        }
        default: return read_or(mapping, name, std::move(default_value));
    }
}

/// Reads the keys of the channel's settings, or of a mapping in them.
void read_keys(const Mapping& mapping, const ChannelKind& kind, std::string_view path,
               const std::optional<ListenAddress>& common, JsonObject& values) {
    Keys allowed{{}, {}};
    for (const ChannelKey& key : kind.keys) {
        if (key.is_in(path)) allowed.names.push_back(key.name());
    }
    mapping.allow_only(allowed);
    for (const ChannelKey& key : kind.keys) {
        if (!key.is_in(path)) continue;
        const std::string name(key.name());
        if (key.type != KeyType::mapping) {
            values[key.path] = read_value(mapping, name, key, common);
        } else if (mapping.has(name)) {
            values[key.path] = true;
            read_keys(mapping.mapping(name), kind, key.path, common, values);
        }
    }
}

AdminSettings read_admin(const Mapping& mapping, const std::optional<ListenAddress>& common) {
    mapping.allow_only(admin_keys);
    AdminSettings settings;
    settings.listen = common.value_or(settings.listen);
    read_address(mapping, "listen", settings.listen);
    mapping.read("viewer_token_env", settings.viewer_token_env);
    mapping.read("operator_token_env", settings.operator_token_env);
    return settings;
}

/// The key is true, or a mapping.
std::optional<ListenAddress> read_console(const Mapping& mapping,
                                          const std::optional<ListenAddress>& common) {
    const std::string key = "console";
    std::optional<ListenAddress> none;
    if (!mapping.has(key)) return none;
    bool is_served = true;
    ListenAddress address = common.value_or(ListenAddress{"127.0.0.1", 8644});
    if (mapping.has_flag(key)) {
        mapping.read(key, is_served);
    } else {
        const Mapping own = mapping.mapping(key);
        own.allow_only(console_keys);
        read_address(own, "listen", address);
    }
    return is_served ? std::optional(std::move(address)) : none;
}

void read_root(const Mapping& mapping, GatewaySettings& settings) {
    std::string root;
    mapping.read("root", root);
    if (root.empty()) return;
    if (!root.starts_with('/') && !root.starts_with("~/"))
        Mapping::refuse(mapping.below("root"), "a directory that begins with / or ~/");
    settings.root = expand_home(root);
}

bub::SessionFiles read_files(const Mapping& mapping) {
    mapping.allow_only(files_keys);
    constexpr std::size_t megabyte = 1'000'000;
    bub::SessionFiles files;
    std::size_t file = files.max_file_bytes / megabyte;
    std::size_t total = files.max_total_bytes / megabyte;
    mapping.read("max_file_mb", file);
    mapping.read("max_files", files.max_files, 0);
    mapping.read("max_total_mb", total);
    files.max_file_bytes = file * megabyte;
    files.max_total_bytes = total * megabyte;
    return files;
}

}  // namespace

std::string ListenAddress::text() const {
    const bool brackets = host.find(':') != std::string::npos;
    return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool SenderRule::matches(std::string_view of_channel, std::string_view of_chat,
                         std::string_view of_user) const {
    return (channel.empty() || channel == of_channel) && (chat.empty() || chat == of_chat) &&
           (user.empty() || user == of_user);
}

std::string ChannelSettings::text(std::string_view key) const {
    return std::string(values_.at(key).as_string());
}

std::vector<std::string> ChannelSettings::list(std::string_view key) const {
    std::vector<std::string> texts;
    for (const Json& one : values_.at(key).as_array()) texts.emplace_back(one.as_string());
    return texts;
}

ListenAddress ChannelSettings::address(std::string_view key) const {
    const JsonObject& value = values_.at(key).as_object();
    ListenAddress address = parse_address(std::string(value.at("text").as_string())).value();
    address.is_common = value.at("is_common").as_bool();
    return address;
}

std::string ChannelSettings::path_of(std::string_view key) const {
    return "gateway." + std::string(kind_->name) + "." + std::string(key);
}

std::string ChannelSettings::secret(const std::string& key, const std::string& what,
                                    const std::string& advice) const {
    if (has(key) && !text(key).empty()) return text(key);
    const std::string variable = text(key + "_env");
    const char* const value = std::getenv(variable.c_str());
    if (value && *value) return value;
    throw Error(ErrorCode::invalid_argument, "the channel " + std::string(kind_->name) +
                                                 " has no " + what + ", since " + variable +
                                                 " is not set. " + advice);
}

void ChannelSettings::refuse(std::string_view key, const std::string& expected) const {
    Mapping::refuse(path_of(key), expected);
}

ChannelSettings channel_settings(const JsonObject& config, const ChannelKind& kind) {
    const std::string name(kind.name);
    const Mapping gateway(config.if_contains("gateway"), "gateway");
    JsonObject values;
    read_keys(gateway.mapping(name), kind, {}, read_common_address(gateway), values);
    ChannelSettings settings(kind, std::move(values));
    if (kind.check && gateway.has(name)) kind.check(settings);
    return settings;
}

std::vector<std::string> gateway_setting_names() {
    std::vector<std::string> names;
    for (const Keys& keys : {gateway_keys(), files_keys, limits_keys, limit_keys, rule_keys,
                             approver_keys, schedule_keys, admin_keys, console_keys}) {
        for (const std::string_view name : keys.names)
            names.push_back(std::string(keys.path) + "." + std::string(name));
    }
    for (const ChannelKind* kind : channel_kinds()) {
        for (const ChannelKey& key : kind->keys)
            names.push_back("gateway." + std::string(kind->name) + "." + std::string(key.path));
    }
    return names;
}

GatewaySettings gateway_settings(const JsonObject& config, TimeZones zones) {
    const Mapping mapping(config.if_contains("gateway"), "gateway");
    mapping.allow_only(gateway_keys());
    GatewaySettings settings;
    mapping.read("channels", settings.channels, "names of channels");
    read_root(mapping, settings);
    mapping.read("shared_workspace", settings.shared_workspace);
    mapping.read("tape_namespace", settings.tape_namespace);
    if (settings.tape_namespace.empty())
        Mapping::refuse("gateway.tape_namespace", "a text that is not empty");
    mapping.read("notify_database", settings.notify_database);
    if (!settings.notify_database.empty() && !database_problem(settings.notify_database).empty())
        Mapping::refuse("gateway.notify_database", "the URL of a PostgreSQL database");
    auto drain = static_cast<std::size_t>(settings.drain_timeout.count());
    mapping.read("drain_timeout", drain);
    settings.drain_timeout = std::chrono::seconds(drain);
    auto retry = static_cast<std::size_t>(settings.retry_limit.count());
    mapping.read("retry_limit", retry, 0);
    settings.retry_limit = std::chrono::seconds(retry);
    std::size_t question_timeout = 0;
    mapping.read("question_timeout", question_timeout, 0);
    settings.question_timeout = std::chrono::seconds(question_timeout);
    mapping.read("max_waiting", settings.max_waiting);
    mapping.read("threads", settings.threads, 0);
    if (settings.threads > most_threads)
        Mapping::refuse("gateway.threads", "at most " + std::to_string(most_threads));
    mapping.read("stream", settings.stream);
    mapping.read("show_error_details", settings.show_error_details);
    settings.files = read_files(mapping.mapping("files"));
    mapping.each("rules", "rules",
                 [&](const Mapping& one) { settings.rules.push_back(read_rule(one)); });
    mapping.each("approvers", "users",
                 [&](const Mapping& one) { settings.approvers.push_back(read_approver(one)); });
    mapping.read("time_zone", settings.time_zone);
    mapping.each("schedule", "schedules", [&](const Mapping& one) {
        settings.schedules.push_back(read_schedule(one, settings.time_zone, zones));
    });
    settings.limits = read_limits(mapping.mapping("limits"));
    settings.limits.zone = settings.time_zone;
    if ((settings.limits.any() || !settings.time_zone.empty()) && zones == TimeZones::resolved) {
        bub::ScheduleRequest day;
        day.every = "1d";
        day.zone = settings.time_zone;
        (void)read_times("gateway.time_zone", day);
    }
    read_access(mapping, settings);
    for (const ChannelKind* kind : channel_kinds()) {
        if (mapping.has(kind->name)) settings.configured.push_back(channel_settings(config, *kind));
    }
    if (mapping.has("admin"))
        settings.admin = read_admin(mapping.mapping("admin"), settings.listen);
    settings.console = read_console(mapping, settings.listen);
    // Metrics have no token: from other machines they are readable only where the configuration says so.
    std::optional<ListenAddress> status = settings.listen;
    if (status && !status->is_local()) status.reset();
    settings.status = read_address(mapping, "status", std::move(status));
    return settings;
}

}  // namespace cubepi::app
