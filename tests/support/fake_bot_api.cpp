#include <support/fake_bot_api.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

using cubepi::detail::array_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;
using cubepi::testing::MemoryResponse;
using cubepi::testing::MemoryTransport;

namespace {

/// On its own, so that an error in the channel's count is found.
std::int64_t utf16_units(std::string_view text) {
    std::int64_t units = 0;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte & 0xC0U) == 0x80U) continue;
        units += byte >= 0xF0U ? 2 : 1;
    }
    return units;
}

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// Returns a part of a form as RFC 7578 has it.
JsonObject parse_form(const std::string& body, const std::string& type, std::string& file) {
    JsonObject parameters;
    const std::string boundary = "--" + type.substr(type.find("boundary=") + 9);
    std::size_t at = body.find(boundary);
    while (at != std::string::npos) {
        const std::size_t begin = at + boundary.size() + 2;
        const std::size_t end = body.find(boundary, begin);
        if (end == std::string::npos) break;
        const std::string part = body.substr(begin, end - begin - 2);
        const std::size_t head = part.find("\r\n\r\n");
        const std::string header = part.substr(0, head);
        const std::size_t name = header.find("name=\"") + 6;
        const std::string key = header.substr(name, header.find('"', name) - name);
        const std::size_t given = header.find("filename=\"");
        if (given != std::string::npos) {
            file = header.substr(given + 10, header.find('"', given + 10) - given - 10) + ":" +
                   part.substr(head + 4);
        } else {
            boost::system::error_code failed;
            Json value = boost::json::parse(part.substr(head + 4), failed);
            parameters[key] = failed ? Json(part.substr(head + 4)) : value;
        }
        at = end;
    }
    return parameters;
}

}  // namespace

/// Answers long polls only when there are updates, as the service does.
class FakeBotTransport final : public cubepi::HttpTransport {
public:
    FakeBotTransport(FakeBotApi& api, std::shared_ptr<cubepi::Clock> clock)
        : api_(api),
          clock_(clock),
          inner_([this](const cubepi::HttpRequest& request) { return api_.respond(request); },
                 clock) {}

    cubepi::Task<cubepi::HttpResponse> send(cubepi::HttpRequest request) override {
        const bool polls = request.url.ends_with("/getUpdates");
        const FakeBotApi::Poll poll(api_, polls ? request.headers.get("x-poller") : "", polls);
        if (polls && api_.waits_for_updates &&
            request.body.find("\"timeout\":0") == std::string::npos) {
            for (int tenths = 0; tenths < 500 && api_.updates_.empty() && poll.is_last(); ++tenths)
                co_await clock_->sleep_for(std::chrono::milliseconds(100));
        }
        if (!poll.is_last()) request.headers.set("x-terminated", "true");
        co_return co_await inner_.send(std::move(request));
    }

private:
    FakeBotApi& api_;
    const std::shared_ptr<cubepi::Clock> clock_;
    MemoryTransport inner_;
};

FakeBotApi::FakeBotApi(std::shared_ptr<cubepi::Clock> clock, std::string token)
    : clock_(std::move(clock)), token_(std::move(token)) {}

std::shared_ptr<cubepi::HttpTransport> FakeBotApi::transport() {
    return std::make_shared<FakeBotTransport>(*this, clock_);
}

JsonObject FakeBotApi::message_of(std::int64_t user, std::int64_t chat, std::string text) {
    chats_[chat] = true;
    JsonObject message;
    message["message_id"] = ++next_message_;
    message["date"] = 1'767'225'600;
    message["from"] = JsonObject{{"id", user}, {"is_bot", false}, {"first_name", "Ann"}};
    message["chat"] = JsonObject{{"id", chat}, {"type", chat < 0 ? "supergroup" : "private"}};
    message["text"] = std::move(text);
    return message;
}

std::int64_t FakeBotApi::add_update(JsonObject update) {
    update["update_id"] = ++next_update_;
    updates_.emplace_back(std::move(update));
    return next_update_;
}

std::int64_t FakeBotApi::say(std::int64_t user, std::string text) {
    JsonObject update;
    update["message"] = message_of(user, user, std::move(text));
    return add_update(std::move(update));
}

JsonObject FakeBotApi::json_of(const FakeMessage& message) const {
    JsonObject json;
    json["message_id"] = message.id;
    json["date"] = 1'767'225'600;
    json["from"] =
        JsonObject{{"id", 42}, {"is_bot", true}, {"first_name", "Bot"}, {"username", "cubepi_bot"}};
    json["chat"] =
        JsonObject{{"id", message.chat}, {"type", message.chat < 0 ? "supergroup" : "private"}};
    if (message.thread != 0) {
        json["message_thread_id"] = message.thread;
        json["is_topic_message"] = true;
    }
    json["text"] = message.text;
    if (!message.markup.empty()) json["reply_markup"] = message.markup;
    return json;
}

JsonObject FakeBotApi::shown_message(std::int64_t message_id) const {
    return json_of(messages_.at(message_id));
}

std::int64_t FakeBotApi::press(std::int64_t user, std::int64_t message_id, std::size_t row,
                               std::size_t column) {
    const FakeMessage& message = messages_.at(message_id);
    const Json& button = message.markup.at("inline_keyboard").at(row).at(column);
    JsonObject query;
    query["id"] = "callback-" + std::to_string(next_update_ + 1);
    query["from"] = JsonObject{{"id", user}, {"is_bot", false}, {"first_name", "Ann"}};
    query["message"] = json_of(message);
    query["data"] = button.at("callback_data");
    JsonObject update;
    update["callback_query"] = std::move(query);
    return add_update(std::move(update));
}

void FakeBotApi::fail(const std::string& method, std::vector<Fault> faults) {
    for (const Fault fault : faults) faults_[method].push_back(fault);
}

std::vector<FakeMessage> FakeBotApi::messages(std::int64_t chat) const {
    std::vector<FakeMessage> all;
    for (const auto& [id, message] : messages_) {
        if (message.chat == chat && !message.deleted) all.push_back(message);
    }
    return all;
}

std::vector<std::string> FakeBotApi::texts(std::int64_t chat) const {
    std::vector<std::string> all;
    for (const FakeMessage& message : messages(chat)) all.push_back(message.text);
    return all;
}

std::size_t FakeBotApi::count(const std::string& method) const {
    const auto found = counts_.find(method);
    return found == counts_.end() ? 0 : found->second;
}

FakeBotApi::Reply FakeBotApi::ok(Json result) {
    Reply reply;
    reply.body = JsonObject{{"ok", true}, {"result", std::move(result)}};
    return reply;
}

FakeBotApi::Reply FakeBotApi::error(int status, std::string text) {
    Reply reply;
    reply.status = status;
    reply.body =
        JsonObject{{"ok", false}, {"error_code", status}, {"description", std::move(text)}};
    return reply;
}

FakeBotApi::Reply FakeBotApi::reject(std::string text) {
    ++rejected;
    last_rejection = text;
    return error(400, "Bad Request: " + std::move(text));
}

Fault FakeBotApi::fault_of(const std::string& method) {
    if (on_call) {
        const Fault fault = on_call(method, counts_[method]);
        if (fault != Fault::none) return fault;
    }
    std::deque<Fault>& faults = faults_[method];
    if (faults.empty()) return Fault::none;
    const Fault fault = faults.front();
    faults.pop_front();
    return fault;
}

MemoryResponse FakeBotApi::respond(const cubepi::HttpRequest& request) {
    const std::string prefix = "https://api.telegram.org/bot" + token_ + "/";
    const std::string files = "https://api.telegram.org/file/bot" + token_ + "/";
    if (request.url.starts_with(files)) {
        const auto file = files_.find(request.url.substr(files.size()));
        return file == files_.end() ? MemoryResponse(404, "{}") : MemoryResponse(200, file->second);
    }
    if (!request.url.starts_with(prefix))
        return MemoryResponse(404, R"({"ok":false,"error_code":404,"description":"Not Found"})");
    const std::string method = request.url.substr(prefix.size());
    Fault fault = fault_of(method);
    if (!request.headers.get("x-terminated").empty()) fault = Fault::conflict;
    ++counts_[method];
    // A transport that quotes the address, as a careless one does.
    const cubepi::Error cut(cubepi::ErrorCode::disconnected,
                            "lost the connection to " + request.url);
    if (fault == Fault::cut_before) return MemoryResponse::failing(cut);
    if (fault == Fault::garbage) return MemoryResponse(200, "<html>a proxy</html>");
    Reply reply = error(500, "Internal Server Error");
    std::string file;
    const std::string type(request.headers.get("content-type"));
    const bool is_form = type.starts_with("multipart/form-data");
    JsonObject parameters = is_form ? parse_form(request.body, type, file)
                                    : boost::json::parse(request.body).as_object();
    if (!file.empty()) parameters["_file"] = file;
    if (fault == Fault::too_many) {
        reply = error(429, "Too Many Requests: retry after " + std::to_string(retry_after));
        reply.body.as_object()["parameters"] = JsonObject{{"retry_after", retry_after}};
    } else if (fault == Fault::forbidden) {
        reply = error(403, "Forbidden: bot was blocked by the user");
    } else if (fault == Fault::conflict) {
        reply = error(409, "Conflict: terminated by other getUpdates request");
    } else if (fault != Fault::internal) {
        reply = execute(method, parameters);
        calls_.emplace_back(method, std::move(parameters));
    }
    if (fault == Fault::cut_after) return MemoryResponse::failing(cut);
    if (fault == Fault::internal_after) reply = error(502, "Bad Gateway");
    return MemoryResponse(reply.status, boost::json::serialize(reply.body));
}

FakeBotApi::Reply FakeBotApi::execute(const std::string& method, const JsonObject& parameters) {
    if (method == "getMe")
        return ok(JsonObject{{"id", 42}, {"is_bot", true}, {"username", "cubepi_bot"}});
    if (method == "getUpdates") return get_updates(parameters);
    if (method == "deleteWebhook") {
        webhook.clear();
        return ok(true);
    }
    if (method == "setWebhook") {
        webhook = parameters;
        return ok(true);
    }
    if (method == "sendChatAction") return ok(true);
    if (method == "answerCallbackQuery") {
        notices_.push_back(text_member(parameters, "text"));
        return ok(true);
    }
    if (method == "sendMessage") return send_message(parameters, {});
    if (method == "sendPhoto" || method == "sendDocument" || method == "sendVideo" ||
        method == "sendAudio")
        return send_message(parameters, method);
    if (method == "editMessageText") return edit_text(parameters);
    if (method == "editMessageReplyMarkup") return edit_markup(parameters);
    if (method == "deleteMessage") return delete_one(parameters);
    if (method == "getFile") return get_file(parameters);
    return error(404, "Not Found: method not found");
}

FakeBotApi::Reply FakeBotApi::get_updates(const JsonObject& parameters) {
    if (!webhook.empty())
        return error(409, "Conflict: can't use getUpdates method while webhook is active");
    if (const auto offset = integer_member(parameters, "offset")) {
        std::erase_if(updates_, [&](const Json& update) {
            const JsonObject* const object = update.if_object();
            return object && integer_member(*object, "update_id").value_or(0) < *offset;
        });
    }
    const auto limit = static_cast<std::size_t>(integer_member(parameters, "limit").value_or(100));
    JsonArray batch;
    for (const Json& update : updates_) {
        if (batch.size() == std::min<std::size_t>(limit, 100)) break;
        batch.push_back(update);
    }
    largest_batch = std::max(largest_batch, batch.size());
    return ok(std::move(batch));
}

std::optional<std::string> FakeBotApi::problem_of(const std::string& text,
                                                  const JsonObject& parameters) const {
    if (is_blank(text)) return "message text is empty";
    if (!cubepi::is_utf8(text)) return "strings must be encoded in UTF-8";
    const std::int64_t units = utf16_units(text);
    if (units > 4096) return "message is too long";
    const JsonArray* const entities = array_member(parameters, "entities");
    if (!entities) return std::nullopt;
    if (rejects_entities) return "can't parse entities: unsupported";
    std::vector<std::pair<std::int64_t, std::int64_t>> open;
    for (const Json& one : *entities) {
        const std::int64_t begin = integer_member(one.as_object(), "offset").value_or(-1);
        const std::int64_t length = integer_member(one.as_object(), "length").value_or(0);
        if (begin < 0 || length <= 0 || begin + length > units)
            return "can't parse entities: an entity is outside of the text";
        std::erase_if(open, [&](const auto& other) { return other.second <= begin; });
        for (const auto& other : open) {
            if (begin + length > other.second) return "can't parse entities: entities overlap";
        }
        open.emplace_back(begin, begin + length);
    }
    return std::nullopt;
}

std::optional<std::string> FakeBotApi::problem_of_markup(const JsonObject& parameters) const {
    const JsonObject* const markup = object_member(parameters, "reply_markup");
    if (!markup) return std::nullopt;
    for (const Json& row : markup->at("inline_keyboard").as_array()) {
        for (const Json& button : row.as_array()) {
            const std::string data = text_member(button.as_object(), "callback_data");
            if (data.empty() || data.size() > 64) return "BUTTON_DATA_INVALID";
            if (text_member(button.as_object(), "text").empty()) return "button text is empty";
        }
    }
    return std::nullopt;
}

bool FakeBotApi::exceeds_rate(std::int64_t chat) {
    const auto now = clock_->now();
    const auto count_since = [&](std::int64_t of, std::chrono::nanoseconds span) {
        std::deque<cubepi::Clock::time_point>& times = sent_[of];
        while (!times.empty() && times.front() <= now - std::chrono::minutes(1)) times.pop_front();
        return std::count_if(times.begin(), times.end(),
                             [&](auto time) { return time > now - span; });
    };
    const bool in_chat = chat < 0 ? count_since(chat, std::chrono::minutes(1)) >= 20
                                  : count_since(chat, std::chrono::seconds(1)) >= 4;
    const bool in_all = count_since(0, std::chrono::seconds(1)) >= 30;
    if (in_chat || in_all) return true;
    sent_[chat].push_back(now);
    sent_[0].push_back(now);
    return false;
}

FakeBotApi::Reply FakeBotApi::reject_rate() {
    Reply reply = error(429, "Too Many Requests: retry after 3");
    reply.body.as_object()["parameters"] = JsonObject{{"retry_after", 3}};
    ++rejected;
    ++too_fast;
    last_rejection = "rate";
    return reply;
}

FakeBotApi::Reply FakeBotApi::accept(const FakeMessage& message) const {
    if (on_message) on_message(message);
    return ok(json_of(message));
}

FakeBotApi::Reply FakeBotApi::send_message(const JsonObject& parameters, const std::string& file) {
    const std::int64_t chat = integer_member(parameters, "chat_id").value_or(0);
    if (!chats_.contains(chat)) return reject("chat not found");
    const bool is_file = !file.empty();
    const std::string text = text_member(parameters, is_file ? "caption" : "text");
    if (!is_file) {
        if (const auto problem = problem_of(text, parameters)) return reject(*problem);
    }
    if (const auto problem = problem_of_markup(parameters)) return reject(*problem);
    if (exceeds_rate(chat)) return reject_rate();
    FakeMessage message;
    message.id = ++next_message_;
    message.chat = chat;
    message.thread = integer_member(parameters, "message_thread_id").value_or(0);
    message.text = text;
    if (const JsonArray* entities = array_member(parameters, "entities"))
        message.entities = *entities;
    if (const JsonObject* markup = object_member(parameters, "reply_markup"))
        message.markup = *markup;
    if (const JsonObject* reply = object_member(parameters, "reply_parameters"))
        message.reply_to = integer_member(*reply, "message_id").value_or(0);
    if (is_file) message.file = file + " " + text_member(parameters, "_file");
    const std::int64_t id = message.id;
    messages_[id] = std::move(message);
    return accept(messages_[id]);
}

FakeBotApi::Reply FakeBotApi::edit_text(const JsonObject& parameters) {
    const auto found = messages_.find(integer_member(parameters, "message_id").value_or(0));
    if (found == messages_.end() || found->second.deleted)
        return reject("message to edit not found");
    FakeMessage& message = found->second;
    const std::string text = text_member(parameters, "text");
    if (const auto problem = problem_of(text, parameters)) return reject(*problem);
    const JsonArray* const entities = array_member(parameters, "entities");
    const JsonArray given = entities ? *entities : JsonArray();
    if (message.text == text && message.entities == given) {
        // Not counted as a mistake of the channel: it cannot know after a lost answer.
        return error(400,
                     "Bad Request: message is not modified: specified new message content and "
                     "reply markup are exactly the same");
    }
    if (exceeds_rate(message.chat)) return reject_rate();
    message.text = text;
    message.entities = given;
    ++message.edits;
    return accept(message);
}

FakeBotApi::Reply FakeBotApi::edit_markup(const JsonObject& parameters) {
    const auto found = messages_.find(integer_member(parameters, "message_id").value_or(0));
    if (found == messages_.end() || found->second.deleted)
        return reject("message to edit not found");
    if (const auto problem = problem_of_markup(parameters)) return reject(*problem);
    const JsonObject* const markup = object_member(parameters, "reply_markup");
    found->second.markup = markup ? *markup : JsonObject();
    return ok(json_of(found->second));
}

FakeBotApi::Reply FakeBotApi::delete_one(const JsonObject& parameters) {
    const auto found = messages_.find(integer_member(parameters, "message_id").value_or(0));
    if (found == messages_.end() || found->second.deleted)
        return reject("message to delete not found");
    found->second.deleted = true;
    return ok(true);
}

FakeBotApi::Reply FakeBotApi::get_file(const JsonObject& parameters) {
    const std::string id = text_member(parameters, "file_id");
    if (!files_.contains(id)) return reject("invalid file_id");
    return ok(JsonObject{{"file_id", id}, {"file_path", id}});
}

}  // namespace bub::telegram
