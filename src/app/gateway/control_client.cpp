#include "control_client.hpp"

#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace cubepi::app {

JsonObject call_gateway(const std::filesystem::path& socket, const JsonObject& request) {
    using Protocol = boost::asio::local::stream_protocol;
    boost::asio::io_context context;
    Protocol::socket connection(context);
    boost::system::error_code failed;
    connection.connect(Protocol::endpoint(socket.string()), failed);
    if (failed) {
        throw Error(ErrorCode::invalid_state, "no gateway of this user is running (" +
                                                  socket.string() + ": " + failed.message() +
                                                  "). To start one: cubepi gateway");
    }
    const std::string line = boost::json::serialize(request) + "\n";
    std::string answer;
    boost::asio::write(connection, boost::asio::buffer(line), failed);
    if (!failed)
        boost::asio::read_until(connection, boost::asio::dynamic_buffer(answer), '\n', failed);
    if (failed)
        throw Error(ErrorCode::invalid_state, "the gateway ended before it answered the request");
    Json value = boost::json::parse(answer, failed);
    if (failed || !value.is_object())
        throw Error(ErrorCode::invalid_state, "the answer of the gateway is not a JSON object");
    const std::string_view error = detail::string_member(value.get_object(), "error");
    if (!error.empty()) throw Error(ErrorCode::invalid_state, std::string(error));
    return std::move(value.get_object());
}

}  // namespace cubepi::app
