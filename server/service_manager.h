// What a service manager hears from the server that it started, by systemd's protocol (sd_notify(3); Type=notify): "READY=1",
// "STOPPING=1", "STATUS=" and a line for people, parted by line ends, in one datagram. Ten lines, so that an image need not have
// libsystemd.
#ifndef CELLBATCH_SERVER_SERVICE_MANAGER_H_
#define CELLBATCH_SERVER_SERVICE_MANAGER_H_

#include <string>

#include "absl/status/status.h"

namespace cellbatch {

// To the socket of that name, as NOTIFY_SOCKET has it: a path, or '@' and a name that is no file's. Empty: to nobody. A manager
// that does not read is not waited for. UNAVAILABLE: nobody can have heard it. Any thread.
absl::Status TellServiceManager(const std::string& socket_name, const std::string& state);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_SERVICE_MANAGER_H_
