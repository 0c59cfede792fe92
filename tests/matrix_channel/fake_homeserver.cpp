#include "fake_homeserver.hpp"

#include <chrono>
#include <cstdlib>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/log.hpp>

namespace matrix {

namespace {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;

// words: allowed, the terms of Matrix
const std::string chats_key = "rooms";
constexpr std::string_view member_type = "m.room.member";
constexpr std::string_view message_type = "m.room.message";

constexpr std::size_t max_event_bytes = 65'536;

cubepi::HttpServerOptions server_options() {
    cubepi::HttpServerOptions options;
    options.log.emplace();
    return options;
}

cubepi::HttpServerResponse refusal(unsigned status, const char* code) {
    return cubepi::HttpServerResponse::json(status, JsonObject{{"errcode", code}, {"error", ""}});
}

cubepi::HttpServerResponse success(JsonObject members = {}) {
    return cubepi::HttpServerResponse::json(200, std::move(members));
}

JsonObject& object_in(JsonObject& parent, const std::string& key) {
    Json& value = parent[key];
    if (!value.is_object()) value.emplace_object();
    return value.get_object();
}

std::string position_text(std::size_t count) { return "s" + std::to_string(count); }

}  // namespace

FakeHomeserver::FakeHomeserver() : server_(context_.get_executor(), server_options()) {
    route("identify", "GET", "account/whoami",
          [](const Request&) { return success(JsonObject{{"user_id", bot}}); });
    route("position", "GET", "user/{user}/account_data/{type}", [this](const Request& request) {
        if (request.parameter("user") != bot) return refusal(403, "M_FORBIDDEN");
        if (position_.empty()) return refusal(404, "M_NOT_FOUND");
        return success(JsonObject{{"since", position_}});
    });
    route("store", "PUT", "user/{user}/account_data/{type}", [this](const Request& request) {
        position_ = std::string(boost::json::parse(request.body).at("since").as_string());
        return success();
    });
    route("join", "POST", chats_key + "/{chat}/join", [this](const Request& request) {
        const std::string chat(request.parameter("chat"));
        if (invitations_.erase(chat) == 0) return refusal(403, "M_FORBIDDEN");
        chats_.insert(chat);
        return success();
    });
    route("send", "PUT", chats_key + "/{chat}/send/{type}/{transaction}",
          [this](const Request& request) { return send(request); });
    routes_.add("GET", "/_matrix/client/v3/sync",
                [this](Request request) { return sync(std::move(request)); });
    routes_.serve();
    thread_ = std::thread([this] {
        const auto work = boost::asio::make_work_guard(context_);
        context_.run();
    });
}

FakeHomeserver::~FakeHomeserver() {
    boost::asio::co_spawn(context_, server_.stop(std::chrono::nanoseconds::zero()),
                          boost::asio::use_future)
        .wait();
    context_.stop();
    thread_.join();
}

void FakeHomeserver::route(const char* name, const char* method, const std::string& path,
                           std::function<Response(const Request&)> reply) {
    routes_.add(method, "/_matrix/client/v3/" + path,
                [this, name, reply = std::move(reply)](Request request) -> cubepi::Task<Response> {
                    const auto answer = [&]() -> Response {
                        if (request.bearer_token() != token) return refusal(401, "M_UNKNOWN_TOKEN");
                        const std::lock_guard lock(mutex_);
                        const Fault before = observe(name, false);
                        if (before == cut) cubepi::throw_cancelled();
                        if (before != none) return refusal(before, "M_LIMIT_EXCEEDED");
                        Response response = reply(request);
                        changed();
                        if (observe(name, true) == cut) cubepi::throw_cancelled();
                        return response;
                    };
                    co_return answer();
                });
}

FakeHomeserver::Fault FakeHomeserver::observe(const std::string& request, bool is_done) {
    if (!watch_) return none;
    const Fault fault = watch_(request, is_done);
    changed_.notify_all();
    return fault;
}

cubepi::Task<cubepi::HttpServerResponse> FakeHomeserver::sync(Request request) {
    if (request.bearer_token() != token) co_return refusal(401, "M_UNKNOWN_TOKEN");
    const std::size_t at = request.query.find("since=s");
    const std::size_t since =
        at == std::string::npos ? 0 : std::strtoul(request.query.c_str() + at + 7, nullptr, 10);
    JsonObject found;
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if (observe("sync", false) == cut) cubepi::throw_cancelled();
            found = news(since);
        }
        if (!found.empty() || at == std::string::npos) break;
        co_await arrived_.wait();
    }
    const std::lock_guard lock(mutex_);
    if (observe("sync", true) == cut) cubepi::throw_cancelled();
    found["next_batch"] = position_text(events_.size());
    co_return success(std::move(found));
}

JsonObject FakeHomeserver::news(std::size_t since) {
    JsonObject chats;
    for (const auto& [chat, sender] : invitations_) {
        const JsonObject event{{"type", member_type}, {"state_key", bot}, {"sender", sender}};
        object_in(object_in(object_in(chats, "invite"), chat), "invite_state")["events"] =
            JsonArray{event};
    }
    for (std::size_t i = since; i < events_.size(); ++i) {
        const Event& one = events_[i];
        if (!chats_.contains(one.chat)) continue;
        Json& list = object_in(object_in(object_in(chats, "join"), one.chat), "timeline")["events"];
        if (!list.is_array()) list.emplace_array();
        list.get_array().push_back(one.event);
    }
    return chats.empty() ? JsonObject() : JsonObject{{chats_key, std::move(chats)}};
}

cubepi::HttpServerResponse FakeHomeserver::send(const Request& request) {
    const std::string chat(request.parameter("chat"));
    if (!chats_.contains(chat)) return refusal(403, "M_FORBIDDEN");
    if (request.body.size() > max_event_bytes) return refusal(413, "M_TOO_LARGE");
    boost::system::error_code failed;
    const Json content = boost::json::parse(request.body, failed);
    if (failed || !content.is_object() || !content.get_object().contains("body"))
        return refusal(400, "M_BAD_JSON");
    const auto [known, is_new] = transactions_.try_emplace(
        std::string(request.parameter("transaction")), "$" + std::to_string(events_.size()));
    if (is_new) add(chat, bot, std::string(content.at("body").as_string()));
    return success(JsonObject{{"event_id", known->second}});
}

void FakeHomeserver::add(const std::string& chat, const std::string& sender,
                         const std::string& text) {
    JsonObject event{{"type", message_type},
                     {"event_id", "$" + std::to_string(events_.size())},
                     {"sender", sender},
                     {"content", JsonObject{{"msgtype", "m.text"}, {"body", text}}}};
    events_.push_back(Event{chat, std::move(event)});
    messages_.push_back(Message{chat, sender, text});
    changed();
}

void FakeHomeserver::changed() {
    changed_.notify_all();
    boost::asio::post(context_, [this] { arrived_.pulse(); });
}

void FakeHomeserver::watch(Watch watch) {
    const std::lock_guard lock(mutex_);
    watch_ = std::move(watch);
}

void FakeHomeserver::add_chat(const std::string& chat) {
    const std::lock_guard lock(mutex_);
    chats_.insert(chat);
}

void FakeHomeserver::invite(const std::string& chat, const std::string& sender) {
    const std::lock_guard lock(mutex_);
    invitations_[chat] = sender;
    changed();
}

void FakeHomeserver::say(const std::string& chat, const std::string& sender,
                         const std::string& text) {
    const std::lock_guard lock(mutex_);
    add(chat, sender, text);
}

std::vector<std::string> FakeHomeserver::answers(const std::string& chat) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const Message& one : messages_) {
        if (one.chat == chat && one.sender == bot) texts.push_back(one.text);
    }
    return texts;
}

bool FakeHomeserver::has_joined(const std::string& chat) {
    const std::lock_guard lock(mutex_);
    return chats_.contains(chat);
}

bool FakeHomeserver::is_read() {
    const std::lock_guard lock(mutex_);
    return position_ == position_text(events_.size());
}

void FakeHomeserver::wait_until(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, condition);
}

}  // namespace matrix
