#include "openai_runs.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <new>
#include <utility>

#include <openssl/hmac.h>

#include <bub/envelope.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

using bub::HttpReplyPart;
using cubepi::detail::object_member;
using cubepi::detail::OpenAIResponseStatus;
using cubepi::detail::text_member;

std::string error_text(const JsonObject& reply) {
    const JsonObject* const error = object_member(reply, "error");
    return error ? text_member(*error, "message") : std::string();
}

std::optional<cubepi::detail::OpenAIReplyUsage> usage_of(const JsonObject& reply) {
    std::optional<cubepi::detail::OpenAIReplyUsage> usage;
    const JsonObject* const used = object_member(reply, bub::usage_key);
    if (!used) return usage;
    const auto count = [used](std::string_view name) {
        return cubepi::detail::integer_member(*used, name).value_or(0);
    };
    usage.emplace();
    usage->input = count("input");
    usage->cached = count("cached");
    usage->output = count("output");
    usage->reasoning = count("reasoning");
    return usage;
}

OpenAIReplyEnd end_of(const JsonObject& reply) {
    OpenAIReplyEnd end;
    end.usage = usage_of(reply);
    const Json* const ok = reply.if_contains("ok");
    if (ok && *ok == Json(false)) {
        end.reason = error_text(reply);
        end.status = end.reason == bub::stopped_text ? OpenAIResponseStatus::cancelled
                                                     : OpenAIResponseStatus::failed;
        return end;
    }
    const std::string finish = text_member(reply, "finish");
    if (finish == "cut_off" || finish == "context_window") {
        end.status = OpenAIResponseStatus::incomplete;
        end.reason = "max_output_tokens";
        end.finish = "length";
    } else if (finish == "refused") {
        end.status = OpenAIResponseStatus::incomplete;
        end.reason = "content_filter";
        end.finish = "content_filter";
    }
    return end;
}

using detail::OpenAIResponseStatus;

constexpr std::string_view response_prefix = "resp_";
constexpr std::string_view call_prefix = "call_";
constexpr std::size_t code_size = 32;
constexpr std::size_t most_runs = 256;
constexpr std::size_t most_bytes = std::size_t{64} << 20U;
constexpr std::string_view postponed_text = "the gateway ends before the answer is complete";

std::optional<std::string> bytes_of(std::string_view hex) {
    if (hex.size() % 2 != 0) return std::nullopt;
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
        const auto value = detail::parsed_number<unsigned>(hex.substr(i, 2), 16);
        if (!value) return std::nullopt;
        bytes += static_cast<char>(*value);
    }
    return bytes;
}

}  // namespace

void OpenAIReply::take(const HttpReplyPart& part, OpenAIReplySink& sink) {
    switch (part.kind) {
        case HttpReplyPart::Kind::text:
            open_ += part.text;
            sink.text(part.text);
            break;
        case HttpReplyPart::Kind::restart:
            end_message(sink);
            problems_.clear();
            has_calls_ = false;
            sink.restarted();
            break;
        case HttpReplyPart::Kind::reasoning: sink.reasoning(part.text); break;
        case HttpReplyPart::Kind::event: sink.event(*part.event); break;
        case HttpReplyPart::Kind::output: take_output(part.value, sink); break;
        case HttpReplyPart::Kind::done: take_end(part.value, sink); break;
        case HttpReplyPart::Kind::pending:
            ended_ = true;
            sink.postponed();
            break;
    }
}

void OpenAIReply::take_reply(const JsonObject& reply, OpenAIReplySink& sink) {
    if (const Json* const outputs = reply.if_contains("outputs"); outputs && outputs->is_array()) {
        for (const Json& output : outputs->get_array())
            if (output.is_object()) take_output(output.get_object(), sink);
    }
    take_end(reply, sink);
}

void OpenAIReply::take_output(const JsonObject& output, OpenAIReplySink& sink) {
    const std::string text = text_member(output, "text");
    if (text_member(output, "kind") == bub::envelope_kind::error) {
        problems_.push_back(text);
        return;
    }
    const JsonObject* const question = object_member(output, "question");
    if (question && take_question(*question, sink)) return;
    const JsonObject* const file = object_member(output, "file");
    take_text(
        file ? text + (text.empty() ? "" : "\n") + "File: " + text_member(*file, "name") : text,
        sink);
}

/// Returns false for a question that is a text to the client.
bool OpenAIReply::take_question(const JsonObject& question, OpenAIReplySink& sink) {
    end_message(sink);
    const std::optional<bub::ClientCall> call = bub::client_call_of(question);
    if (!call) return sink.question(question);
    has_calls_ = true;
    sink.call(text_member(question, "request_id"), *call);
    return true;
}

/// Ends the open message, if there is one.
void OpenAIReply::end_message(OpenAIReplySink& sink) {
    if (!open_.empty()) sink.end_message();
    open_.clear();
}

void OpenAIReply::take_text(std::string_view text, OpenAIReplySink& sink) {
    if (!open_.empty() && text.starts_with(open_)) {
        text.remove_prefix(open_.size());
    } else if (!open_.empty() && std::string_view(open_).ends_with(text)) {
        text = {};
    } else if (!open_.empty()) {
        sink.end_message();
    }
    if (!text.empty()) sink.text(text);
    sink.end_message();
    open_.clear();
}

void OpenAIReply::take_end(const JsonObject& reply, OpenAIReplySink& sink) {
    OpenAIReplyEnd end = end_of(reply);
    if (has_calls_ && end.status == OpenAIResponseStatus::completed) end.finish = "tool_calls";
    end_message(sink);
    // The other ends say why by themselves.
    if (end.status == OpenAIResponseStatus::completed)
        for (const std::string& problem : std::exchange(problems_, {})) take_text(problem, sink);
    ended_ = true;
    sink.end(end);
}

std::string OpenAIResponseNames::code_of(std::string_view kind, std::string_view text) const {
    std::array<unsigned char, EVP_MAX_MD_SIZE> code = {};
    unsigned size = 0;
    const std::string signed_text = "openai " +
                                    std::string(kind == call_prefix ? "call" : "response") + " " +
                                    std::string(text);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(signed_text.data());
    if (!HMAC(EVP_sha256(), token_.data(), static_cast<int>(token_.size()), bytes,
              signed_text.size(), code.data(), &size))
        throw std::bad_alloc();
    const std::string_view all(reinterpret_cast<const char*>(code.data()), size);
    return detail::hex_of(all).substr(0, code_size);
}

std::string OpenAIResponseNames::signed_id(std::string_view prefix, const std::string& text) const {
    return std::string(prefix) + text + "_" + code_of(prefix, text);
}

std::optional<std::string_view> OpenAIResponseNames::text_of(std::string_view prefix,
                                                             std::string_view id) const {
    if (!id.starts_with(prefix)) return std::nullopt;
    id.remove_prefix(prefix.size());
    const std::size_t last = id.rfind('_');
    if (last == std::string_view::npos) return std::nullopt;
    const std::string_view text = id.substr(0, last);
    if (!equal_secrets(id.substr(last + 1), code_of(prefix, text))) return std::nullopt;
    return text;
}

std::string OpenAIResponseNames::id_of(const OpenAIResponseName& name) const {
    return signed_id(response_prefix, detail::hex_of(name.message) + "_" +
                                          std::to_string(name.created) + "_" +
                                          detail::hex_of(name.session));
}

std::optional<OpenAIResponseName> OpenAIResponseNames::read(std::string_view id) const {
    const std::optional<std::string_view> text = text_of(response_prefix, id);
    if (!text) return std::nullopt;
    // Made by id_of().
    const std::size_t first = text->find('_');
    const std::size_t second = text->rfind('_');
    const std::optional<std::string> message = bytes_of(text->substr(0, first));
    const std::optional<std::string> session = bytes_of(text->substr(second + 1));
    if (!message || !session) return std::nullopt;
    OpenAIResponseName name;
    name.message = *message;
    name.session = *session;
    const std::string_view created = text->substr(first + 1, second - first - 1);
    (void)std::from_chars(created.data(), created.data() + created.size(), name.created);
    return name;
}

std::string OpenAIResponseNames::call_id_of(const OpenAICallName& name) const {
    return signed_id(call_prefix,
                     detail::hex_of(name.question) + "_" + detail::hex_of(name.session));
}

std::optional<OpenAICallName> OpenAIResponseNames::read_call(std::string_view id) const {
    const std::optional<std::string_view> text = text_of(call_prefix, id);
    if (!text) return std::nullopt;
    const std::size_t middle = text->find('_');
    const std::optional<std::string> question = bytes_of(text->substr(0, middle));
    const std::optional<std::string> session = bytes_of(text->substr(middle + 1));
    if (!question || !session) return std::nullopt;
    OpenAICallName name;
    name.question = *question;
    name.session = *session;
    return name;
}

HttpServerResponse openai_failure(unsigned status, std::string_view message, std::string_view code,
                                  std::string_view member) {
    HttpServerResponse response =
        HttpServerResponse::json(status, detail::openai_error(status, message, code, member));
    if (status >= 500) response.headers.set("x-should-retry", "false");
    return response;
}

void OpenAIRun::advance() {
    while (reply_ && !answer_.ended()) {
        const std::optional<bub::HttpReplyPart> part = reply_->poll();
        if (!part) break;
        take(*part);
    }
    // It has the files of the answer.
    if (answer_.ended()) reply_.reset();
    for (; counted_ < events_.size(); ++counted_) bytes_ += events_[counted_].size();
}

detail::OpenAIClientCall OpenAIRun::client_call(std::string_view question,
                                                const bub::ClientCall& call) const {
    detail::OpenAIClientCall made;
    made.id = call_id_(question);
    made.name = call.name;
    made.arguments = json_text(call.arguments);
    return made;
}

OpenAIResponseRun::OpenAIResponseRun(std::shared_ptr<bub::HttpReply> reply, CallId call_id,
                                     detail::OpenAIReplyHead head, JsonObject request)
    : OpenAIRun(std::move(reply), std::move(call_id)),
      writer_(std::move(head), std::move(request)) {
    writer_.begin(events_);
}

HttpServerResponse OpenAIResponseRun::response() const {
    return HttpServerResponse::json(200, writer_.response());
}

bool OpenAIResponseRun::question(const JsonObject& request) {
    const JsonObject* const payload = detail::object_member(request, "payload");
    if (!payload || detail::text_member(*payload, "kind") != "approve") return false;
    const JsonObject* const arguments = detail::object_member(*payload, "args");
    writer_.add_approval(detail::text_member(request, "request_id"),
                         detail::text_member(*payload, "tool_name"),
                         arguments ? *arguments : JsonObject(), events_);
    return true;
}

void OpenAIResponseRun::call(std::string_view question, const bub::ClientCall& call) {
    writer_.add_call(client_call(question, call), events_);
}

void OpenAIResponseRun::end(const OpenAIReplyEnd& end) {
    if (end.usage) writer_.set_usage(*end.usage);
    // The records do not have it.
    if (reply() && end.status == OpenAIResponseStatus::completed) {
        writer_.set_completed(std::chrono::duration_cast<std::chrono::seconds>(
                                  Runtime::standard()->clock->wall().time_since_epoch())
                                  .count());
    }
    writer_.finish(end.status, end.reason, events_);
}

void OpenAIResponseRun::postponed() {
    OpenAIRun::postponed();
    writer_.set_status(OpenAIResponseStatus::queued);
}

OpenAIChatRun::OpenAIChatRun(std::shared_ptr<bub::HttpReply> reply, CallId call_id,
                             detail::OpenAIReplyHead head, bool includes_usage)
    : OpenAIRun(std::move(reply), std::move(call_id)), writer_(std::move(head), includes_usage) {}

void OpenAIChatRun::text(std::string_view text) {
    std::string piece = std::exchange(is_after_message_, false) ? "\n\n" : "";
    piece += text;
    whole_ += piece;
    writer_.add_text(piece, events_.emplace_back());
}

void OpenAIChatRun::call(std::string_view question, const bub::ClientCall& call) {
    writer_.add_call(client_call(question, call), events_.emplace_back());
}

void OpenAIChatRun::end(const OpenAIReplyEnd& end) {
    end_ = end;
    if (end.usage) writer_.set_usage(*end.usage);
    if (is_failure()) {
        writer_.fail(end.reason, events_.emplace_back());
    } else {
        writer_.finish(end.finish, events_.emplace_back());
    }
}

void OpenAIChatRun::postponed() {
    OpenAIRun::postponed();
    writer_.fail(postponed_text, events_.emplace_back());
}

bool OpenAIChatRun::is_failure() const {
    return end_.status == OpenAIResponseStatus::failed ||
           end_.status == OpenAIResponseStatus::cancelled;
}

HttpServerResponse OpenAIChatRun::response() const {
    if (is_postponed()) return openai_failure(503, postponed_text);
    if (is_failure()) return openai_failure(500, end_.reason);
    return HttpServerResponse::json(200, writer_.completion(whole_, end_.finish));
}

namespace {

/// Its turn may continue when the last client has gone.
bool is_in_progress(const OpenAIRun& run) {
    return run.reply() && !run.reply()->done() && !run.reply()->lost();
}

/// `run` is that of the map: no client reads it.
bool is_forgotten(const std::shared_ptr<OpenAIRun>& run) {
    return run.use_count() == 1 && !is_in_progress(*run);
}

}  // namespace

void OpenAIRuns::add(const std::string& message, const std::shared_ptr<OpenAIRun>& run,
                     bool keeps) {
    std::erase_if(made_, [](const auto& one) { return is_forgotten(one.second); });
    made_[message] = run;
    if (!keeps) return;
    if (held_.insert_or_assign(message, run).second) order_.push_back(message);
    shrink();
}

std::shared_ptr<OpenAIRun> OpenAIRuns::find(const std::string& message) const {
    const auto found = made_.find(message);
    return found == made_.end() || is_forgotten(found->second) ? nullptr : found->second;
}

std::size_t OpenAIRuns::in_progress() const {
    return static_cast<std::size_t>(std::count_if(
        made_.begin(), made_.end(), [](const auto& one) { return is_in_progress(*one.second); }));
}

void OpenAIRuns::shrink() {
    std::size_t bytes = 0;
    for (const auto& [message, run] : held_) {
        run->advance();
        bytes += run->bytes();
    }
    while (order_.size() > most_runs || (bytes > most_bytes && order_.size() > 1)) {
        const auto oldest = held_.find(order_.front());
        bytes -= oldest->second->bytes();
        held_.erase(oldest);
        order_.pop_front();
    }
}

}  // namespace cubepi::app
