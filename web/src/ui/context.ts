import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Store } from "../state/store";

export const StoreContext = createContext<Store | undefined>(undefined);

export function useStore(): Store {
  return useContext(StoreContext)!;
}
