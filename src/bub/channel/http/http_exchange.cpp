#include <bub/channel/http/http_exchange.hpp>

#include <bub/questions.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>

namespace bub::detail {

void HttpExchange::begin() {
    // The turn of a message that was kept until a question was answered begins a second time.
    outputs_.clear();
    text_.clear();
    error_.clear();
    done_ = false;
}

void HttpExchange::end(const std::exception_ptr& failure) {
    if (failure) {
        error_ = cubepi::is_cancellation(failure) ? "the turn was ended before it was complete"
                                                  : describe(failure);
    }
    done_ = true;
    changed_.pulse();
}

void HttpExchange::refuse(Refusal refusal) {
    error_ = refusal.text;
    refusal_ = std::move(refusal);
    done_ = true;
    changed_.pulse();
}

void HttpExchange::add_output(const Envelope& message) {
    JsonObject output;
    output["kind"] = message.kind.value_or(std::string(envelope_kind::normal));
    output["text"] = message.content_text();
    if (const Json* question = message.rest.if_contains(question_key))
        output["question"] = *question;
    if (message.context.contains("resent")) output["resent"] = true;
    outputs_.push_back(std::move(output));
    changed_.pulse();
}

void HttpExchange::add_text(std::string_view text, std::size_t limit) {
    if (!streaming || text_.size() + text.size() > limit) return;
    text_ += text;
    changed_.pulse();
}

std::shared_ptr<HttpExchange> HttpExchanges::find(const std::string& key) const {
    const auto found = exchanges_.find(key);
    return found == exchanges_.end() ? nullptr : found->second;
}

std::shared_ptr<HttpExchange> HttpExchanges::add(std::string key, std::string chat) {
    auto exchange = std::make_shared<HttpExchange>(key, std::move(chat));
    exchanges_[std::move(key)] = exchange;
    return exchange;
}

void HttpExchanges::refuse(const std::shared_ptr<HttpExchange>& exchange,
                           HttpExchange::Refusal refusal) {
    exchange->refuse(std::move(refusal));
    exchanges_.erase(exchange->key());
}

std::shared_ptr<HttpExchange> HttpExchanges::current(const std::string& chat) const {
    const auto found = current_.find(chat);
    return found == current_.end() ? nullptr : found->second;
}

void HttpExchanges::begin_turn(const std::shared_ptr<HttpExchange>& exchange) {
    exchange->begin();
    current_[exchange->chat()] = exchange;
}

void HttpExchanges::end_turn(const std::shared_ptr<HttpExchange>& exchange,
                             const std::exception_ptr& failure) {
    exchange->end(failure);
    const auto found = current_.find(exchange->chat());
    if (found != current_.end() && found->second == exchange) current_.erase(found);
    if (exchange->key().empty()) return;
    ended_.push_back(exchange->key());
    while (ended_.size() > remembered_) {
        const std::shared_ptr<HttpExchange> oldest = find(ended_.front());
        if (oldest && oldest->done()) exchanges_.erase(ended_.front());
        ended_.pop_front();
    }
}

void HttpExchanges::wake_all() {
    for (const auto& [key, exchange] : exchanges_) exchange->wake();
}

}  // namespace bub::detail
