#include "gateway_settings.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/net/http_server.hpp>

#include "paths.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t most_threads = 256;
constexpr std::size_t most_body_mb = 64;

/// The keys of a mapping, which is at `path` of the configuration file.
struct Keys {
    std::string_view path;
    std::vector<std::string_view> names;
};

const Keys gateway_keys{"gateway",
                        {"channels",
                         "root",
                         "shared_workspace",
                         "tape_namespace",
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
                         "http",
                         "telegram",
                         "admin",
                         "status",
                         "listen",
                         "base_path",
                         "allowed_hosts",
                         "trusted_proxies"}};
const Keys rule_keys{"gateway.rules", {"channel", "chat", "user", "allow", "refuse"}};
const Keys approver_keys{"gateway.approvers", {"channel", "user"}};
const Keys files_keys{"gateway.files", {"max_file_mb", "max_files", "max_total_mb"}};
const Keys http_keys{"gateway.http",
                     {"listen", "token_env", "operators", "max_body_mb", "certificate", "key"}};
const Keys telegram_keys{
    "gateway.telegram",
    {"token_env", "token", "users", "chats", "operators", "progress", "api_url", "webhook"}};
const Keys admin_keys{"gateway.admin", {"listen", "viewer_token_env", "operator_token_env"}};
const Keys webhook_keys{"gateway.telegram.webhook", {"url", "listen", "path", "secret_env"}};

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
            throw Error(ErrorCode::parse, config_path().string() + ": unknown key '" +
                                              below(std::string(key)) +
                                              "'; 'man cubepi' lists the keys of the file");
        }
    }

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
    /// Ids may be written as numbers.
    void read(const std::string& key, std::vector<std::string>& value, const char* what) const {
        if (!has(key)) return;
        const std::string expected = std::string("a list of ") + what;
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

void read_address(const Mapping& mapping, const std::string& key, ListenAddress& address) {
    std::string text;
    mapping.read(key, text);
    if (text.empty()) return;
    const std::string expected = "an address and a port, such as 127.0.0.1:8642 or [::1]:8642";
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0) Mapping::refuse(mapping.below(key), expected);
    const char* const end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (failed != std::errc() || stop != end) Mapping::refuse(mapping.below(key), expected);
    address.is_common = false;
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']'))
        address.host = address.host.substr(1, address.host.size() - 2);
}

/// Returns `absent` if the key is absent.
std::optional<ListenAddress> read_address(const Mapping& mapping, const std::string& key,
                                          std::optional<ListenAddress> absent) {
    if (!mapping.has(key)) return absent;
    ListenAddress address;
    read_address(mapping, key, address);
    return address;
}

/// How the servers are reached.
void read_access(const Mapping& mapping, GatewaySettings& settings) {
    settings.listen = read_address(mapping, "listen", std::nullopt);
    if (settings.listen) settings.listen->is_common = true;
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
        Mapping::refuse(mapping.below("user"),
                        "a user of a channel: {channel: telegram, user: 42}");
    return approver;
}

void read_file(const Mapping& mapping, const std::string& key, std::filesystem::path& file) {
    std::string text;
    mapping.read(key, text);
    if (text.empty()) return;
    if (!text.starts_with('/') && !text.starts_with("~/"))
        Mapping::refuse(mapping.below(key), "a file whose path begins with / or ~/");
    file = expand_home(text);
}

/// `common`: gateway.listen.
HttpChannelSettings read_http(const Mapping& mapping, const std::optional<ListenAddress>& common) {
    mapping.allow_only(http_keys);
    HttpChannelSettings settings;
    settings.listen = common.value_or(settings.listen);
    read_address(mapping, "listen", settings.listen);
    mapping.read("token_env", settings.token_env);
    mapping.read("operators", settings.operators, "users");
    mapping.read("max_body_mb", settings.max_body_mb);
    if (settings.max_body_mb > most_body_mb)
        Mapping::refuse(mapping.below("max_body_mb"), "at most " + std::to_string(most_body_mb));
    read_file(mapping, "certificate", settings.certificate);
    read_file(mapping, "key", settings.key);
    if (settings.certificate.empty() != settings.key.empty())
        Mapping::refuse(mapping.below("key"), "set together with the certificate");
    return settings;
}

TelegramWebhookSettings read_webhook(const Mapping& mapping,
                                     const std::optional<ListenAddress>& common) {
    mapping.allow_only(webhook_keys);
    TelegramWebhookSettings settings;
    settings.listen = common.value_or(settings.listen);
    mapping.read("url", settings.url);
    if (!settings.url.starts_with("https://"))
        Mapping::refuse(mapping.below("url"), "the public address, beginning with https://");
    read_address(mapping, "listen", settings.listen);
    mapping.read("path", settings.path);
    if (!settings.path.starts_with('/')) Mapping::refuse(mapping.below("path"), "a path");
    mapping.read("secret_env", settings.secret_env);
    return settings;
}

/// Ids of users are positive, those of groups negative: one in the wrong list would never match.
void read_ids(const Mapping& mapping, const char* key, bool of_groups,
              std::vector<std::string>& ids) {
    const char* const expected =
        of_groups ? "ids of groups, negative numbers" : "ids of users, positive numbers";
    mapping.read(key, ids, expected);
    for (const std::string& id : ids) {
        const std::string_view digits = std::string_view(id).substr(of_groups ? 1 : 0);
        const bool is_id = id.starts_with('-') == of_groups && !digits.empty() &&
                           digits.find_first_not_of("0123456789") == std::string_view::npos;
        if (!is_id) Mapping::refuse(mapping.below(key), std::string("a list of ") + expected);
    }
}

TelegramChannelSettings read_telegram(const Mapping& mapping,
                                      const std::optional<ListenAddress>& common) {
    mapping.allow_only(telegram_keys);
    TelegramChannelSettings settings;
    mapping.read("token_env", settings.token_env);
    mapping.read("token", settings.token);
    read_ids(mapping, "users", false, settings.users);
    read_ids(mapping, "chats", true, settings.chats);
    read_ids(mapping, "operators", false, settings.operators);
    mapping.read("progress", settings.progress);
    mapping.read("api_url", settings.api_url);
    if (mapping.has("webhook")) settings.webhook = read_webhook(mapping.mapping("webhook"), common);
    return settings;
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

std::vector<std::string> gateway_setting_names() {
    std::vector<std::string> names;
    for (const Keys* keys : {&gateway_keys, &files_keys, &rule_keys, &approver_keys, &http_keys,
                             &telegram_keys, &webhook_keys, &admin_keys}) {
        for (const std::string_view name : keys->names)
            names.push_back(std::string(keys->path) + "." + std::string(name));
    }
    return names;
}

GatewaySettings gateway_settings(const JsonObject& config) {
    const Mapping mapping(config.if_contains("gateway"), "gateway");
    mapping.allow_only(gateway_keys);
    GatewaySettings settings;
    mapping.read("channels", settings.channels, "names of channels");
    read_root(mapping, settings);
    mapping.read("shared_workspace", settings.shared_workspace);
    mapping.read("tape_namespace", settings.tape_namespace);
    if (settings.tape_namespace.empty())
        Mapping::refuse("gateway.tape_namespace", "a text that is not empty");
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
    read_access(mapping, settings);
    if (mapping.has("http")) settings.http = read_http(mapping.mapping("http"), settings.listen);
    if (mapping.has("telegram"))
        settings.telegram = read_telegram(mapping.mapping("telegram"), settings.listen);
    if (mapping.has("admin"))
        settings.admin = read_admin(mapping.mapping("admin"), settings.listen);
    settings.status = read_address(mapping, "status", settings.listen);
    return settings;
}

}  // namespace cubepi::app
