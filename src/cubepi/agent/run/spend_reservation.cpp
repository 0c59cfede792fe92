#include <cubepi/agent/run/spend_reservation.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/provider/capability.hpp>
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
/// Of what stands for a compacted conversation, whose size is not known before the next answer.
constexpr std::int64_t compacted_tokens = 50'000;
/// More than any window; endpoints may report anything.
constexpr double most_tokens = 1e12;

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
double reported_tokens(const Message& message) {
    const AssistantMessage* answer = message.assistant();
    if (!answer || !answer->usage) return 0;
    const auto number = [](const TokenCount& tokens) {
        return static_cast<double>(std::max<std::int64_t>(tokens.value_or(0), 0));
    };
    const Usage& usage = *answer->usage;
    const double prompt = number(usage.input_tokens) + number(usage.cache_read_tokens) +
                          number(usage.cache_write_tokens);
    return prompt == 0 ? 0 : prompt + number(usage.output_tokens);
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
                                              "' is unknown");
}

/// A model that may answer a request.
struct Offer {
    ModelCost price;
    std::int64_t answer = 0;  ///< the most tokens

    /// Returns the most tokens of an answer that costs `usd` with its prompt; no fewer than those of use.
    std::int64_t tokens_for(double usd, std::int64_t prompt) const {
        const double fixed = cost_of_call(price, prompt, 0);
        const double variable = cost_of_call(price, prompt, answer) - fixed;
        if (fixed + variable <= usd) return std::numeric_limits<std::int64_t>::max();
        const double tokens = (usd - fixed) / variable * static_cast<double>(answer);
        return std::clamp(static_cast<std::int64_t>(std::floor(tokens)),
                          std::min(answer, least_answer), answer);
    }
};

/// Adds the models that may answer a request for `model`: all of a fallback chain. Returns an error if a price is unknown.
std::optional<LimitReachedError> add_offers(const Provider& provider, const Model& model,
                                            std::vector<Offer>& offers) {
    const std::vector<BoundModel> inner = provider.inner_models();
    for (const BoundModel& one : inner) {
        if (auto unknown = add_offers(*one.provider(), one.spec(), offers)) return unknown;
    }
    if (!inner.empty()) return std::nullopt;
    const std::optional<ModelCost> price = price_of(model);
    if (!price) return unknown_price(model);
    offers.push_back(Offer{*price, most_answer_tokens(model)});
    return std::nullopt;
}

}  // namespace

std::int64_t most_prompt_tokens(const ModelRequest& request, bool is_one_model) {
    std::int64_t sum = tokens_of(request.system_prompt.str().size());
    if (request.tools) {
        for (const ToolDefinition& tool : *request.tools) {
            sum += tokens_of(tool.name.str().size() + tool.description.str().size());
            if (tool.parameters) sum += tokens_of(json_text(*tool.parameters).size());
        }
    }
    double reported_to_estimated = 1.0;
    const std::int64_t fixed = sum;
    for (const Message& message : request.messages) {
        const AssistantMessage* answer = message.assistant();
        const bool is_compacted = answer && has_compacted(*answer) && is_one_model &&
                                  answer->provider_id == request.model.provider_id;
        if (is_compacted) {
            sum = fixed + compacted_tokens;
            reported_to_estimated = 1.0;
        }
        sum += tokens_of(message);
        const double reported = is_compacted ? 0.0 : reported_tokens(message);
        if (reported > 0) {
            reported_to_estimated = std::max(1.0, reported / static_cast<double>(sum));
        }
    }
    const double tokens = static_cast<double>(sum) * reported_to_estimated;
    return static_cast<std::int64_t>(std::min(std::ceil(tokens), most_tokens));
}

std::optional<LimitReachedError> SpendReservation::reserve(std::shared_ptr<RunAccount> account,
                                                           const Provider& provider,
                                                           ModelRequest& request) {
    if (!account->has_limit()) return std::nullopt;
    std::vector<Offer> offers;
    if (auto unknown = add_offers(provider, request.model, offers)) return unknown;
    const std::int64_t prompt = most_prompt_tokens(request, offers.size() == 1);
    double most = 0;
    double least = 0;
    for (const Offer& offer : offers) {
        most = std::max(most, cost_of_call(offer.price, prompt, offer.answer));
        least = std::max(least,
                         cost_of_call(offer.price, prompt, std::min(offer.answer, least_answer)));
    }
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
    std::int64_t limit = most_answer_tokens(request.model);
    for (const Offer& offer : offers) limit = std::min(limit, offer.tokens_for(usd_, prompt));
    // A chain passes a limit on that its first model does not have anyway.
    if (offers.size() > 1 && limit == request.model.max_tokens) --limit;
    request.model.max_tokens = limit;
    return std::nullopt;
}

void SpendReservation::end(std::optional<double> cost) {
    if (!account_) return;
    account_->end_reservation(usd_, cost.value_or(usd_));
    account_.reset();
}

}  // namespace cubepi::detail
