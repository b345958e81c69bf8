//! Calls on paths. Deletes and renames first perform deferred closes, and imitate Windows XP if configured. Cached
//! look-ups are in `directories.rs`.

use super::options::Redirector;
use super::tables::folded;
use super::{Cache, Trouble};
use crate::call::{Access, Ask, Call, Disposition, Open, Reply};
use crate::client::FileClient;

impl<C: FileClient> Cache<C> {
    pub(super) async fn query_path(&mut self, path: &str) -> Result<Reply, Trouble> {
        if self.options.policy.rules().is_some() {
            return self.query_path_by_rules(path).await;
        }
        self.look_up(path).await
    }

    pub(super) async fn delete(&mut self, path: &str) -> Result<Reply, Trouble> {
        let key = folded(path);
        self.clear_way(&[&key]).await?;
        if self.options.redirector == Redirector::Xp {
            self.ask(&Call::QueryPath { path }).await?;
        }
        let reply = self.ask(&Call::Delete { path }).await?;
        self.tables.deleted(&key);
        Ok(reply)
    }

    pub(super) async fn rename(&mut self, from: &str, to: &str) -> Result<Reply, Trouble> {
        let (old, new) = (folded(from), folded(to));
        self.clear_way(&[&old, &new]).await?;
        if self.options.redirector == Redirector::Xp {
            self.look_before_renaming(from, to).await?;
        }
        let reply = self.ask(&Call::Rename { from, to }).await?;
        self.tables.renamed(&old, &new);
        Ok(reply)
    }

    /// Imitates Windows XP: looks up both paths, then opens and closes the old one.
    async fn look_before_renaming(&mut self, from: &str, to: &str) -> Result<(), Trouble> {
        self.ask(&Call::QueryPath { path: from }).await?;
        self.ask(&Call::QueryPath { path: to }).await?;
        let open = Open {
            path: from,
            access: Access::Attributes,
            disposition: Disposition::Open,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        if let Reply::Opened { handle, .. } = self.ask(&Call::Open(open)).await? {
            self.ask(&Call::Close { handle }).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_directory(&mut self, path: &str) -> Result<Reply, Trouble> {
        let handles = self.tables.deferred_within(&[&folded(path)]);
        self.close_wires(&handles).await?;
        self.ask(&Call::RemoveDirectory { path }).await
    }
}
