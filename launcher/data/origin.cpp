// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/origin.h"

#include <unistd.h>

#include "common/remote/rclone.h"
#include "launcher/data/fault.h"
#include "launcher/data/home.h"
#include "launcher/data/path_origin.h"
#include "launcher/data/rclone_origin.h"
#include "launcher/data/walk.h"
#include "launcher/data/web_origin.h"

namespace dl::data {

std::unique_ptr<Origin> open_origin(const Source& source) {
  switch (place_of(source.from)) {
    case Place::kRemote:
      return std::make_unique<RcloneOrigin>(source.from);
    case Place::kUrl:
      return std::make_unique<WebOrigin>(source.from);
    case Place::kPath:
    case Place::kCatalogue:
      break;
  }
  return std::make_unique<PathOrigin>(at_home(source.from));
}

Status check_origin(const Source& source) {
  switch (place_of(source.from)) {
    case Place::kRemote:
      return check_remote_known(source.from);
    case Place::kUrl: {
      const auto listed = WebOrigin(source.from).list();
      return listed ? Status() : Status(listed.error());
    }
    case Place::kCatalogue:
      return Error{Errc::kInvalid,
                   source.from + ": names of the site's catalogue are resolved by dlrun, before dl-data"};
    case Place::kPath:
      break;
  }
  return check_readable(at_home(source.from));
}

}  // namespace dl::data
