// Any request to the server's side of OpenAI's protocols is read within its limits or refused with its member, and the answer that is
// written is the one that the client's side reads. The first byte selects the protocol.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/ids.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/openai/chat_api.hpp>
#include <cubepi/provider/openai/responses_api.hpp>
#include <cubepi/provider/openai/server_api.hpp>

#include "counted_memory.hpp"
#include "fuzz_check.hpp"

using namespace cubepi;
using namespace cubepi::detail;

namespace {

OpenAIReplyHead head() {
    OpenAIReplyHead made;
    made.id = "id";
    made.model = "m";
    return made;
}

template <class Decoder>
std::string text_in(std::string_view body) {
    AssistantMessage first;
    first.id = "m";
    MessageAssembler assembler(first);
    cubepi::testing::SequentialIds ids;
    Decoder decoder(assembler, ids);
    EventQueue queue;
    SseDecoder sse;
    sse.feed(body);
    SseEvent event;
    while (!decoder.over() && sse.next(event)) decoder.decode(event.event, event.data, queue);
    decoder.finish(queue);
    std::string text;
    while (!queue.empty()) {
        const StreamEvent one = queue.pop();
        if (one.type == StreamEventType::text_delta) text += one.delta;
        if (one.is_terminal()) CUBEPI_FUZZ_CHECK(one.type == StreamEventType::done);
    }
    return text;
}

void check(const OpenAIClientRequest& request) {
    CUBEPI_FUZZ_CHECK(!request.model.empty() && request.model.size() <= most_client_name);
    CUBEPI_FUZZ_CHECK(request.user.size() <= most_client_name);
    CUBEPI_FUZZ_CHECK(request.messages.size() <= most_client_messages);
    CUBEPI_FUZZ_CHECK(request.approval || !request.messages.back().is_answer);
    std::string whole;
    std::string chunks;
    std::vector<std::string> events;
    OpenAIChatWriter chat(head());
    OpenAIResponsesWriter responses(head(), request.metadata);
    responses.begin(events);
    for (const OpenAIClientMessage& message : request.messages) {
        CUBEPI_FUZZ_CHECK(is_utf8(message.text));
        CUBEPI_FUZZ_CHECK(message.files.size() <= most_client_parts);
        whole += message.text;
        chat.add_text(message.text, chunks);
        responses.add_text(message.text, events);
        if (message.is_answer) responses.end_message(events);
        CUBEPI_FUZZ_CHECK(message.output_of.size() <= most_client_call_id);
        for (const OpenAIClientCall& call : message.calls) {
            chat.add_call(call, chunks);
            responses.add_call(call, events);
        }
    }
    CUBEPI_FUZZ_CHECK(request.tools.size() <= most_client_tools);
    chat.finish("stop", chunks);
    responses.finish(OpenAIResponseStatus::completed, {}, events);
    std::string all;
    for (const std::string& event : events) all += event;
    CUBEPI_FUZZ_CHECK(text_in<OpenAIChatDecoder>(chunks) == whole);
    CUBEPI_FUZZ_CHECK(text_in<OpenAIResponsesDecoder>(all) == whole);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
    const std::size_t before = fuzz::allocated_bytes();
    OpenAIClientRequest request;
    try {
        request =
            data[0] % 2 == 0 ? read_openai_chat_request(body) : read_openai_responses_request(body);
    } catch (const OpenAIRequestError& error) {
        CUBEPI_FUZZ_CHECK(is_utf8(error.member()));
        CUBEPI_FUZZ_CHECK(!openai_error(400, error.what(), {}, error.member()).empty());
        return 0;
    }
    CUBEPI_FUZZ_CHECK(fuzz::allocated_bytes() - before <= (std::size_t{256} << 10U) + 512 * size);
    check(request);
    return 0;
}
