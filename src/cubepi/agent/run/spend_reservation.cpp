#include <cubepi/agent/run/spend_reservation.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include <cubepi/provider/cost.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

/// An answer with fewer tokens is cut off before it is of use.
constexpr std::int64_t least_answer = 1024;
/// Of a model whose limit is unknown.
constexpr std::int64_t unknown_limit = 32'768;
constexpr std::int64_t image_tokens = 1600;
constexpr std::int64_t bytes_a_token = 2;

std::int64_t tokens_of(std::size_t bytes) {
    return static_cast<std::int64_t>(bytes) / bytes_a_token + 1;
}

struct BlockSize {
    std::int64_t operator()(const TextContent& block) const { return tokens_of(block.text.size()); }
    std::int64_t operator()(const ImageContent&) const { return image_tokens; }
    std::int64_t operator()(const ThinkingContent& block) const {
        return tokens_of(block.thinking.size());
    }
    std::int64_t operator()(const ToolCall& call) const {
        return tokens_of(call.name.str().size() + json_text(Json(call.arguments)).size());
    }
};

std::int64_t tokens_of(const Message& message) {
    std::int64_t sum = 8;  // roles and separators
    const auto add = [&sum](const auto& blocks) {
        for (const auto& block : blocks) sum += std::visit(BlockSize(), block);
    };
    if (const auto* user = message.user()) add(user->content);
    if (const auto* answer = message.assistant()) add(answer->content);
    if (const auto* result = message.tool_result()) add(result->content);
    return sum;
}

/// Returns the tokens of the prompt and the answer; zero if the endpoint reported none.
std::int64_t reported_tokens(const Message& message) {
    const AssistantMessage* answer = message.assistant();
    if (!answer || !answer->usage) return 0;
    const Usage& usage = *answer->usage;
    const std::int64_t prompt = usage.input_tokens.value_or(0) +
                                usage.cache_read_tokens.value_or(0) +
                                usage.cache_write_tokens.value_or(0);
    return prompt == 0 ? 0 : prompt + usage.output_tokens.value_or(0);
}

/// Returns the most tokens that the answer can have.
std::int64_t most_answer_tokens(const Model& model) {
    if (model.max_tokens) return *model.max_tokens;
    std::int64_t most = 0;
    for (const ModelApi api : {ModelApi::openai_chat, ModelApi::openai_responses,
                               ModelApi::anthropic_messages, ModelApi::gemini})
        most = std::max(most, model_profile(api, model.id).max_output.value_or(0));
    return most == 0 ? unknown_limit : most;
}

/// Returns the cost of a call whose prompt is not cached, but stored in the cache if that costs more.
double cost_of_call(const ModelCost& price, std::int64_t prompt, std::int64_t answer) {
    Usage usage;
    if (price.cache_write.value_or(0.0) > price.input.value_or(0.0)) {
        usage.input_tokens = 0;
        usage.cache_write_tokens = prompt;
    } else {
        usage.input_tokens = prompt;
    }
    usage.output_tokens = answer;
    const std::optional<CostBreakdown> cost = cost_breakdown(usage, price);
    return cost ? cost->total() : 0.0;
}

LimitReachedError unknown_price(const Model& model) {
    return LimitReachedError("max_spend", "max_spend is set, but the price of model '" + model.id +
                                              "' of provider '" + model.provider_id +
                                              "' is unknown; set it (Model::cost)");
}

}  // namespace

std::int64_t most_prompt_tokens(const ModelRequest& request) {
    std::int64_t sum = 0;
    for (std::size_t i = request.messages.size(); i-- > 0;) {
        const std::int64_t reported = reported_tokens(request.messages[i]);
        if (reported > 0) return sum + reported;
        sum += tokens_of(request.messages[i]);
    }
    sum += tokens_of(request.system_prompt.str().size());
    if (!request.tools) return sum;
    for (const ToolDefinition& tool : *request.tools) {
        sum += tokens_of(tool.name.str().size() + tool.description.str().size());
        if (tool.parameters) sum += tokens_of(json_text(*tool.parameters).size());
    }
    return sum;
}

std::optional<LimitReachedError> SpendReservation::reserve(std::shared_ptr<RunAccount> account,
                                                           ModelRequest& request) {
    if (!account->has_limit()) return std::nullopt;
    const std::optional<ModelCost> price = price_of(request.model);
    if (!price) return unknown_price(request.model);
    const std::int64_t prompt = most_prompt_tokens(request);
    const std::int64_t answer = most_answer_tokens(request.model);
    const double most = cost_of_call(*price, prompt, answer);
    const double least = cost_of_call(*price, prompt, std::min(answer, least_answer));
    const std::optional<double> usd = account->reserve(least, most);
    if (!usd) {
        return LimitReachedError("max_spend",
                                 "the run reached its limit max_spend: the next call can cost " +
                                     money_text(least) +
                                     ", which is more than is left, or than other runs with the "
                                     "same budget leave; prompt again to continue");
    }
    account_ = std::move(account);
    usd_ = *usd;
    if (usd_ >= most) return std::nullopt;
    const double a_token = (most - cost_of_call(*price, prompt, 0)) / static_cast<double>(answer);
    const double left = (usd_ - cost_of_call(*price, prompt, 0)) / a_token;
    request.model.max_tokens = std::clamp(static_cast<std::int64_t>(std::floor(left)),
                                          std::min(answer, least_answer), answer);
    return std::nullopt;
}

void SpendReservation::settle(std::optional<double> cost) {
    if (!account_) return;
    account_->settle(usd_, cost.value_or(usd_));
    account_.reset();
}

}  // namespace cubepi::detail
