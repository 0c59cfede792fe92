#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

// The Responses API (platform.openai.com/docs/api-reference/responses): its requests (responses_request.cpp) and answers
// (responses_decoder.cpp). The extra keys of a block store what later requests must return (D13):
//   text      "item_id", "phase", "annotations"; "refusal": true for a refusal
//   thinking  "reasoning_item": the item as received, with its encrypted content
//   call      its id is "<call id>|<item id>", as in CubePi
//   text and call "responses_members": the members of the item that have no place in ours (D88)
//   text      "responses_part_members": those of its part of the content
//   message   "server_items": [{"at": number of blocks before it, "item": {...}}], items of server tools

namespace cubepi::detail {

inline constexpr const char* responses_members_key = "responses_members";
inline constexpr const char* responses_part_members_key = "responses_part_members";

/// Settings of the body in addition to the request.
struct OpenAIResponsesSettings {
    ModelProfile profile = {};
    bool store = false;
    /// The system prompt is sent as `instructions`, which the endpoint does not store with the conversation.
    bool prompt_as_instructions = false;
    bool compacts = false;  ///< the endpoint does, if the request asks for it
    JsonObject extra_body = {};
};

/// A conversation as input items.
struct ResponsesInput {
    JsonArray items = {};
    /// The items of the last answer are [answer_begin, answer_end); both are the size if there is no answer.
    std::size_t answer_begin = 0;
    std::size_t answer_end = 0;
    /// The items before this one are not needed: the endpoint has compacted them.
    std::size_t needed_from = 0;
    /// The items differ from the messages: something was missing or was omitted.
    bool repaired = false;
};

/// `encrypted`: false omits reasoning items.
ResponsesInput responses_input(const ModelRequest& request, bool encrypted,
                               std::vector<Notice>& notices);

/// One answer as items. `own`: it is from the same family of providers, so that its ids and reasoning may be
/// returned.
JsonArray responses_items(const AssistantMessage& message, bool own, bool encrypted = true);
/// Returns whether an answer is from the same family as the provider of `model`.
bool is_own_answer(const AssistantMessage& message, std::string_view provider_id);

/// Builds the body around `input`, with notices about changes.
WireProtocol::Built build_openai_responses(const ModelRequest& request,
                                           const OpenAIResponsesSettings& settings,
                                           JsonArray input);

/// An answer in the form of an unstreamed response.
JsonObject openai_response(const AssistantMessage& message);

struct OpenAIResponsesEvent;
class OpenAIResponsesEventParser;
class SplitText;

/// Reads the events of a Responses stream (platform.openai.com/docs/api-reference/responses-streaming). Each item
/// with content is a block, in the order in which the endpoint began them; items may interleave.
class OpenAIResponsesDecoder final : public WireDecoder {
public:
    /// `at_end` is called with the complete answer, before its terminal event.
    OpenAIResponsesDecoder(MessageAssembler& assembler, IdSource& ids,
                           std::function<void(MessageAssembler&)> at_end = {});
    ~OpenAIResponsesDecoder() override;

    void decode(std::string_view event, std::string_view data, EventQueue& out) override;
    bool complete() const noexcept override { return finished_; }
    bool over() const noexcept override { return finished_ || done_marker_; }
    void finish(EventQueue& out) override;

private:
    enum class Kind : std::uint8_t { text, thinking, call, other };

    /// An open output item.
    struct Item {
        Kind kind = Kind::other;
        std::int64_t output_index = -1;
        std::string id;
        std::int32_t block = -1;
        std::size_t length = 0;  ///< bytes of its deltas so far
        bool refusal = false;
        bool open = true;
        std::string call_id;  ///< of the block
        std::string name;
        std::string phase;
    };

    void apply(std::string_view type, EventQueue& out);
    void fail(std::string_view type, std::string_view data);

    Item* find(std::int64_t output_index, std::string_view id);
    /// Returns the item of a delta; opens it if the endpoint did not announce it.
    Item& item_for_delta(Kind kind, EventQueue& out);
    Item& open(Kind kind, std::int64_t output_index, std::string_view id, const JsonObject& given,
               EventQueue& out);
    void item_added(const JsonObject& given, std::int64_t output_index, EventQueue& out);
    void item_done(const JsonObject& given, std::int64_t output_index, EventQueue& out);
    void delta(Kind kind, EventQueue& out);
    void add(Item& item, std::string_view text, EventQueue& out);
    void flush_split(EventQueue& out);
    /// Queues the part of `whole` that the deltas lack. Returns whether the deltas are then equal to `whole`.
    bool complete_deltas(Item& item, std::string_view whole, EventQueue& out);
    /// The content of its deltas.
    std::string streamed(const Item& item) const;
    void close(Item& item, const JsonObject& given, EventQueue& out);
    void close_text(Item& item, const JsonObject& given, EventQueue& out);
    void close_thinking(Item& item, const JsonObject& given, EventQueue& out);
    void close_call(Item& item, const JsonObject& given, EventQueue& out);
    void keep_other(const JsonObject& given, EventQueue& out);
    void end(const OpenAIResponsesEvent& event, EventQueue& out);
    std::string usable_id(std::string_view call_id, std::string_view item_id);

    std::function<void(MessageAssembler&)> at_end_;
    std::unique_ptr<OpenAIResponsesEventParser> parser_;
    std::unique_ptr<SplitText> split_;  ///< holds half a character of `split_item_`
    std::size_t split_item_ = 0;
    std::vector<Item> items_;
    std::size_t open_items_ = 0;
    std::int32_t blocks_ = 0;
    std::string reason_;
    bool has_incomplete_call_ = false;  ///< an item says so itself
    bool finished_ = false;
    bool done_marker_ = false;
};

}  // namespace cubepi::detail
