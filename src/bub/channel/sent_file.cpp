#include <bub/channel/sent_file.hpp>

#include <utility>

#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/workspace/local_workspace.hpp>

namespace bub {

using cubepi::detail::text_member;

Task<std::optional<SentFile>> read_sent_file(std::shared_ptr<const cubepi::Runtime> runtime,
                                             Envelope output, std::size_t limit) {
    std::optional<SentFile> file;
    const JsonObject* const place = cubepi::detail::object_member(output.rest, file_key);
    if (output.kind != envelope_kind::file || !place) co_return file;
    file.emplace();
    file->name = text_member(*place, "name");
    auto read = [root = text_member(*place, "workspace"), path = text_member(*place, "path"),
                 limit] {
        cubepi::LocalWorkspace workspace(root,
                                         cubepi::WorkspacePolicy().read_only().without_links());
        return workspace.read(path, limit);
    };
    file->bytes = co_await cubepi::offload(*runtime->workers, std::move(read));
    co_return file;
}

}  // namespace bub
