#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/provider/wire/decoding.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

struct OpenAIChatCallPiece;
class OpenAIChatChunkParser;

/// Reads the chunks of a Chat Completions stream (platform.openai.com/docs/api-reference/chat-streaming) as OpenAI
/// and compatible servers send them.
///
/// Blocks are in the order of the stream: text after a call or after thinking is a separate block. Open text ends
/// where a call begins; open thinking and calls end with the answer. A finish_reason does not end it: some servers
/// send one with every chunk.
class OpenAIChatDecoder final : public WireDecoder {
public:
    /// `accept_missing_finish`: for servers that never send a finish_reason.
    OpenAIChatDecoder(MessageAssembler& assembler, IdSource& ids,
                      bool accept_missing_finish = false);
    ~OpenAIChatDecoder() override;

    void decode(std::string_view event, std::string_view data, EventQueue& out) override;
    bool complete() const noexcept override { return finished_; }
    bool over() const noexcept override { return done_marker_; }
    void finish(EventQueue& out) override;

private:
    /// An open call.
    struct Call {
        std::int64_t wire_index = 0;
        std::int32_t index = 0;  ///< of the block
        std::string wire_id;     ///< the id from the endpoint, may be empty
        std::string name;
        bool has_arguments = false;
        JsonExtent extent = {};  ///< of the arguments
    };

    void apply(EventQueue& out);
    void note_details();
    void add_content(EventQueue& out);
    void add_thinking(std::string_view text, EventQueue& out);
    void add_text(std::string_view text, bool refusal, EventQueue& out);
    void add_call(const OpenAIChatCallPiece& piece, EventQueue& out);
    void add_name(Call& call, std::string_view name);
    Call* find_call(const OpenAIChatCallPiece& piece);
    bool begins_another(const Call& call, const OpenAIChatCallPiece& piece) const;
    Call& open_call(const OpenAIChatCallPiece& piece, EventQueue& out);
    std::string usable_id(std::string_view wire_id);
    void end_text(EventQueue& out);
    void end_thinking(EventQueue& out);
    void close_blocks(EventQueue& out);

    std::unique_ptr<OpenAIChatChunkParser> parser_;
    std::vector<Call> calls_;
    JsonArray thinking_details_;
    std::string thinking_field_;
    std::string reason_;
    std::int32_t text_ = -1;
    std::int32_t thinking_ = -1;
    std::int32_t last_block_ = -1;
    bool text_is_refusal_ = false;
    bool accept_missing_finish_;
    bool finished_ = false;
    bool done_marker_ = false;
};

}  // namespace cubepi::detail
