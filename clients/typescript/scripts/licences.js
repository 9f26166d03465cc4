// Copies the licences of the repository into the package before it is packed.

import { copyFileSync } from "node:fs";

for (const licence of ["LICENSE-APACHE", "LICENSE-MIT"]) {
  copyFileSync(new URL(`../../../${licence}`, import.meta.url), new URL(`../${licence}`, import.meta.url));
}
